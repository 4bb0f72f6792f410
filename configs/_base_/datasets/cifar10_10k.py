# The first 10,000 training and the first 2,000 test images, for two CPU cores.
_base_ = './cifar10.py'

train_dataloader = dict(num_workers=1, dataset=dict(indices=10000))
val_dataloader = dict(num_workers=1, dataset=dict(indices=2000))
test_dataloader = val_dataloader
