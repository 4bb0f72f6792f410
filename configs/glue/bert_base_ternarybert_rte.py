_base_ = ['../_base_/glue/tasks/rte.py', '../_base_/glue/methods/ternarybert.py']

# Table 4, TernaryBERT 2-2-2: accuracy 54.5 (the paper's number).
teacher = 'work_dirs/bert_base_rte/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
