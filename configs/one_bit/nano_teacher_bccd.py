_base_ = './nano_bccd.py'

# The nano detector with real weights and inputs, which is the teacher and start of the 1-bit one.
model = dict(backbone=dict(conv_cfg=None), neck=dict(conv_cfg=None), bbox_head=dict(conv_cfg=None))
custom_hooks = []  # no binary layer needs its hook
