_base_ = './tiny_bccd.py'

# The nano 1-bit detector: 64 channels wherever maps are large.
model = dict(
    backbone=dict(channels=(32, 64, 128, 128), depths=(1, 2, 2, 2), stem_channels=(8,)),
    neck=dict(in_channels=[64, 128, 128], out_channels=64),
    bbox_head=dict(in_channels=64, feat_channels=64),
)
