_base_ = './small_bccd.py'

# The nano 1-bit detector: a narrow stem, no way up in the neck, towers of one convolution.
model = dict(
    backbone=dict(channels=(32, 128, 128, 256), depths=(1, 3, 3, 2)),
    neck=dict(in_channels=[128, 128, 256], bottom_up=False),
    bbox_head=dict(stacked_convs=1),
)
