_base_ = ['../../_base_/glue/minilm/cola.py', '../../_base_/glue/methods/binarybert_ternary.py']

# First of two stages; minilm_binarybert_cola.py goes on from what it writes.
teacher = 'work_dirs/minilm_cola/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
