_base_ = ['../_base_/glue/tasks/sst2.py', '../_base_/glue/methods/rebnn.py']

# Table 4, ReBNN 1-1-1: accuracy 89.3 (the paper's number).
teacher = 'work_dirs/bert_base_sst2/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
