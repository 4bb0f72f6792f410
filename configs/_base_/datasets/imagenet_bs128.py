# 128 images for each of four GPUs make the batch of 512 that the schedules are for.
_base_ = 'mmpretrain::_base_/datasets/imagenet_bs64.py'

train_dataloader = dict(batch_size=128)
