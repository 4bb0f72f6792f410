_base_ = ['../_base_/glue/tasks/wnli.py', '../_base_/glue/methods/rebnn.py']

teacher = 'work_dirs/bert_base_wnli/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
