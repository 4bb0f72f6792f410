_base_ = ['../../_base_/glue/minilm/mrpc.py', '../../_base_/glue/methods/ternarybert.py']

teacher = 'work_dirs/minilm_mrpc/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
