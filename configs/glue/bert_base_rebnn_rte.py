_base_ = ['../_base_/glue/tasks/rte.py', '../_base_/glue/methods/rebnn.py']

# Table 4, ReBNN 1-1-1: accuracy 56.9 (the paper's number).
teacher = 'work_dirs/bert_base_rte/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
