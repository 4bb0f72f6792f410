_base_ = ['../_base_/glue/tasks/qnli.py', '../_base_/glue/methods/binarybert.py']

# Table 4, BinaryBERT 1-1-1: accuracy 51.5 (the paper's number).
model = dict(
    encoder='work_dirs/bert_base_binarybert_ternary_qnli/pretrained',
    teacher='work_dirs/bert_base_qnli/pretrained',
    num_labels=_base_.num_labels,
)
