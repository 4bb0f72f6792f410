_base_ = ['../_base_/glue/tasks/stsb.py', '../_base_/glue/methods/binarybert.py']

# Table 4, BinaryBERT 1-1-1: Spearman 6.1 (the paper's number).
model = dict(
    encoder='work_dirs/bert_base_binarybert_ternary_stsb/pretrained',
    teacher='work_dirs/bert_base_stsb/pretrained',
    num_labels=_base_.num_labels,
)
