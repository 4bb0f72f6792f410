_base_ = ['../_base_/glue/tasks/mrpc.py', '../_base_/glue/methods/binarybert.py']

# Table 4, BinaryBERT 1-1-1: accuracy 68.3 (the paper's number).
model = dict(
    encoder='work_dirs/bert_base_binarybert_ternary_mrpc/pretrained',
    teacher='work_dirs/bert_base_mrpc/pretrained',
    num_labels=_base_.num_labels,
)
