_base_ = ['../_base_/glue/tasks/qqp.py', '../_base_/glue/methods/bit_w1a2.py']

# First of two stages; bert_base_bit_qqp.py starts and learns from what it writes.
teacher = 'work_dirs/bert_base_qqp/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
