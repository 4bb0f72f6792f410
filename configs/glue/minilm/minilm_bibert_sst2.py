_base_ = ['../../_base_/glue/minilm/sst2.py', '../../_base_/glue/methods/bibert.py']

teacher = 'work_dirs/minilm_sst2/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
