_base_ = ['../../_base_/glue/minilm/rte.py', '../../_base_/glue/methods/qbert.py']

model = dict(encoder='work_dirs/minilm_rte/pretrained', num_labels=_base_.num_labels)
