_base_ = ['../../_base_/glue/minilm/rte.py', '../../_base_/glue/methods/bibert.py']

teacher = 'work_dirs/minilm_rte/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
