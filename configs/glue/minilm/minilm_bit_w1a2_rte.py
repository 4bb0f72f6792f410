_base_ = ['../../_base_/glue/minilm/rte.py', '../../_base_/glue/methods/bit_w1a2.py']

# First of two stages; minilm_bit_rte.py starts and learns from what it writes.
teacher = 'work_dirs/minilm_rte/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
