# CIFAR-10 as one tensor on the device, with the augmentation of cifar10.py done by the batch. Tests go image by image.
_base_ = './cifar10.py'

whole = dict(
    _delete_=True,
    num_workers=0,
    collate_fn=dict(type='rebnn_whole_batch'),
)
images = dict(type='CIFAR10Resident', data_root='data/cifar10', data_prefix=dict(root='cifar-10-batches-py'))
train_dataloader = dict(
    batch_size=128,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(split='train', padding=4, **images),
    **whole,
)
val_dataloader = dict(
    batch_size=250,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(split='test', **images),
    **whole,
)
