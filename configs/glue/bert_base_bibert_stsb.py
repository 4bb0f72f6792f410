_base_ = ['../_base_/glue/tasks/stsb.py', '../_base_/glue/methods/bibert.py']

# Table 4, BiBERT 1-1-1: Spearman 33.6 (the paper's number).
teacher = 'work_dirs/bert_base_stsb/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
