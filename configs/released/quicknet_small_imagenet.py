_base_ = './quicknet_imagenet.py'

# QuickNet-Small: top-1 59.4, top-5 81.8 (Larq Zoo's number).
model = dict(backbone=dict(arch='small'))
