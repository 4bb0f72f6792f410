_base_ = ['../_base_/glue/tasks/qqp.py', '../_base_/glue/methods/binarybert.py']

# Table 4, BinaryBERT 1-1-1: accuracy 66.2 (the paper's number).
model = dict(
    encoder='work_dirs/bert_base_binarybert_ternary_qqp/pretrained',
    teacher='work_dirs/bert_base_qqp/pretrained',
    num_labels=_base_.num_labels,
)
