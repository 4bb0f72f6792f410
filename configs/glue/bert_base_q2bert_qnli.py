_base_ = ['../_base_/glue/tasks/qnli.py', '../_base_/glue/methods/q2bert.py']

# Table 4, Q2BERT 2-8-8: accuracy 61.3 (the paper's number).
model = dict(encoder='work_dirs/bert_base_qnli/pretrained', num_labels=_base_.num_labels)
