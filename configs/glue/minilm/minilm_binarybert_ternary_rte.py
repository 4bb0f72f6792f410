_base_ = ['../../_base_/glue/minilm/rte.py', '../../_base_/glue/methods/binarybert_ternary.py']

# First of two stages; minilm_binarybert_rte.py goes on from what it writes.
teacher = 'work_dirs/minilm_rte/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
