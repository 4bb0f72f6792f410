# The two-stage CIFAR-10 configs. Each stage as on ImageNet: Adam 1e-3, linearly to 0, no weight decay; 200 epochs
# instead of 256.
_base_ = './cifar10_200e.py'

optim_wrapper = dict(optimizer=dict(_delete_=True, type='Adam', lr=1e-3, weight_decay=0))
param_scheduler = [
    dict(type='LinearLR', start_factor=1, end_factor=0, by_epoch=True, begin=0, end=200, convert_to_iter_based=True)
]
