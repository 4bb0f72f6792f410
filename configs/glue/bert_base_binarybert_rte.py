_base_ = ['../_base_/glue/tasks/rte.py', '../_base_/glue/methods/binarybert.py']

# Table 4, BinaryBERT 1-1-1: accuracy 52.7 (the paper's number).
model = dict(
    encoder='work_dirs/bert_base_binarybert_ternary_rte/pretrained',
    teacher='work_dirs/bert_base_rte/pretrained',
    num_labels=_base_.num_labels,
)
