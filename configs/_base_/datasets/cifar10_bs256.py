# For recipes with batches of 256.
_base_ = './cifar10.py'

train_dataloader = dict(batch_size=256)
