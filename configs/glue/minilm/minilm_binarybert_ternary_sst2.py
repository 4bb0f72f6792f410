_base_ = ['../../_base_/glue/minilm/sst2.py', '../../_base_/glue/methods/binarybert_ternary.py']

# First of two stages; minilm_binarybert_sst2.py goes on from what it writes.
teacher = 'work_dirs/minilm_sst2/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
