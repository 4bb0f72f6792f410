_base_ = ['../_base_/glue/tasks/mrpc.py', '../_base_/glue/methods/bibert.py']

# Table 4, BiBERT 1-1-1: accuracy 72.5 (the paper's number).
teacher = 'work_dirs/bert_base_mrpc/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
