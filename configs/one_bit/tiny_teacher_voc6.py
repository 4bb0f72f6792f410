_base_ = './tiny_voc6.py'

# The tiny detector with real weights and inputs, which is the teacher and start of the 1-bit one.
start = dict(type='Pretrained', checkpoint='rebnn://one_bit_tiny', prefix='backbone.')
model = dict(backbone=dict(conv_cfg=None, init_cfg=start), neck=dict(conv_cfg=None), bbox_head=dict(conv_cfg=None))
custom_hooks = []  # no binary layer needs its hook
