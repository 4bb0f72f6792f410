_base_ = ['../../_base_/glue/minilm/rte.py', '../../_base_/glue/methods/bit.py']

teacher = 'work_dirs/minilm_bit_w1a2_rte/pretrained'
model = dict(encoder=teacher, teacher=teacher, num_labels=_base_.num_labels)
