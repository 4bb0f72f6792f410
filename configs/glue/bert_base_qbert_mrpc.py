_base_ = ['../_base_/glue/tasks/mrpc.py', '../_base_/glue/methods/qbert.py']

# Table 4, Q-BERT 2-8-8: accuracy 68.3 (the paper's number).
model = dict(encoder='work_dirs/bert_base_mrpc/pretrained', num_labels=_base_.num_labels)
