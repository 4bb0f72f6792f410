_base_ = './bnext_t_imagenet.py'

# BNext-S: top-1 76.1 (the authors' number).
model = dict(backbone=dict(arch='small'), head=dict(in_channels=1536))
