_base_ = ['../_base_/glue/tasks/stsb.py', '../_base_/glue/methods/bit.py']

# Liu et al. 2022, BiT 1-1-1: Spearman 72.0 (that paper's number).
teacher = 'work_dirs/bert_base_bit_w1a2_stsb/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
