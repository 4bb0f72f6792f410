_base_ = './small_bccd.py'

# The tiny 1-bit detector.
model = dict(
    backbone=dict(channels=(64, 128, 128, 256), depths=(1, 3, 3, 2)),
    neck=dict(in_channels=[128, 128, 256], bottom_up=False),
    bbox_head=dict(stacked_convs=1),
)
