_base_ = './small_bccd.py'

# The tiny 1-bit detector: half as deep.
model = dict(backbone=dict(depths=(2, 4, 4, 2)), bbox_head=dict(stacked_convs=2))
