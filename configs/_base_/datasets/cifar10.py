# CIFAR-10 as its python archive holds it, in data/cifar10/cifar-10-batches-py.
# Mean and standard deviation of ImageNet, as in the CIFAR-10 code of RBNN, ReCU and AdaBin.
data_preprocessor = dict(num_classes=10, mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=False)

train_pipeline = [
    dict(type='RandomCrop', crop_size=32, padding=4),
    dict(type='RandomFlip', prob=0.5, direction='horizontal'),
    dict(type='PackInputs'),
]
images = dict(type='CIFAR10Archive', data_root='data/cifar10', data_prefix=dict(root='cifar-10-batches-py'))
workers = dict(num_workers=2, persistent_workers=True)
train_dataloader = dict(
    batch_size=128,
    sampler=dict(type='DefaultSampler', shuffle=True),
    dataset=dict(split='train', pipeline=train_pipeline, **images),
    **workers,
)
val_dataloader = dict(
    batch_size=250,
    sampler=dict(type='DefaultSampler', shuffle=False),
    dataset=dict(split='test', pipeline=[dict(type='PackInputs')], test_mode=True, **images),
    **workers,
)
test_dataloader = val_dataloader
val_evaluator = dict(type='Accuracy', topk=(1,))
test_evaluator = val_evaluator
