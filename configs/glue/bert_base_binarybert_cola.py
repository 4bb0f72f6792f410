_base_ = ['../_base_/glue/tasks/cola.py', '../_base_/glue/methods/binarybert.py']

# Table 4, BinaryBERT 1-1-1: Matthews 0.0 (the paper's number).
model = dict(
    encoder='work_dirs/bert_base_binarybert_ternary_cola/pretrained',
    teacher='work_dirs/bert_base_cola/pretrained',
    num_labels=_base_.num_labels,
)
