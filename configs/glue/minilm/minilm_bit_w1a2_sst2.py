_base_ = ['../../_base_/glue/minilm/sst2.py', '../../_base_/glue/methods/bit_w1a2.py']

# First of two stages; minilm_bit_sst2.py starts and learns from what it writes.
teacher = 'work_dirs/minilm_sst2/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
