_base_ = './imagenet_bs128.py'

# What Larq Zoo tested on: 224 of 256 parts of the shorter edge, from the middle, brought to
# 224x224 by bicubic interpolation.
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='TensorFlowCenterCrop', crop_size=224, crop_padding=32),
    dict(type='PackInputs'),
]
val_dataloader = dict(dataset=dict(pipeline=test_pipeline))
test_dataloader = dict(dataset=dict(pipeline=test_pipeline))
