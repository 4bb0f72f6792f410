_base_ = ['../_base_/glue/tasks/qnli.py', '../_base_/glue/methods/bit.py']

# Liu et al. 2022, BiT 1-1-1: accuracy 86.4 (that paper's number).
teacher = 'work_dirs/bert_base_bit_w1a2_qnli/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
