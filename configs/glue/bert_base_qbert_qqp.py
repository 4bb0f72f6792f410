_base_ = ['../_base_/glue/tasks/qqp.py', '../_base_/glue/methods/qbert.py']

# Table 4, Q-BERT 2-8-8: no number is printed.
model = dict(encoder='work_dirs/bert_base_qqp/pretrained', num_labels=_base_.num_labels)
