_base_ = ['../_base_/glue/tasks/stsb.py', '../_base_/glue/methods/rebnn.py']

# Table 4, ReBNN 1-1-1: Spearman 38.7 (the paper's number).
teacher = 'work_dirs/bert_base_stsb/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
