_base_ = ['../../_base_/glue/minilm/sst2.py', '../../_base_/glue/methods/q2bert.py']

model = dict(encoder='work_dirs/minilm_sst2/pretrained', num_labels=_base_.num_labels)
