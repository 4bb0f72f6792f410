_base_ = ['../_base_/glue/tasks/mnli.py', '../_base_/glue/methods/bit.py']

# Liu et al. 2022, BiT 1-1-1: accuracy 79.5 matched, 79.4 mismatched (that paper's numbers).
teacher = 'work_dirs/bert_base_bit_w1a2_mnli/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
