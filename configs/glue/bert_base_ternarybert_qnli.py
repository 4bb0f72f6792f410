_base_ = ['../_base_/glue/tasks/qnli.py', '../_base_/glue/methods/ternarybert.py']

# Table 4, TernaryBERT 2-2-2: accuracy 50.0 (the paper's number).
teacher = 'work_dirs/bert_base_qnli/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
