_base_ = ['../_base_/glue/tasks/mrpc.py', '../_base_/glue/methods/binarybert_ternary.py']

# First of two stages; bert_base_binarybert_mrpc.py goes on from what it writes.
teacher = 'work_dirs/bert_base_mrpc/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
