_base_ = ['../_base_/glue/tasks/cola.py', '../_base_/glue/methods/q2bert.py']

# Table 4, Q2BERT 2-8-8: Matthews 0.0 (the paper's number).
model = dict(encoder='work_dirs/bert_base_cola/pretrained', num_labels=_base_.num_labels)
