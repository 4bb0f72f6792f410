_base_ = ['../_base_/glue/tasks/cola.py', '../_base_/glue/methods/ternarybert.py']

# Table 4, TernaryBERT 2-2-2: Matthews 0.0 (the paper's number).
teacher = 'work_dirs/bert_base_cola/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
