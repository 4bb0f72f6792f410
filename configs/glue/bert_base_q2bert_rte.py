_base_ = ['../_base_/glue/tasks/rte.py', '../_base_/glue/methods/q2bert.py']

# Table 4, Q2BERT 2-8-8: accuracy 52.7 (the paper's number).
model = dict(encoder='work_dirs/bert_base_rte/pretrained', num_labels=_base_.num_labels)
