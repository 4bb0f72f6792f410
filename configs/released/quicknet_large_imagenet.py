_base_ = './quicknet_imagenet.py'

# QuickNet-Large: top-1 66.9, top-5 87.0 (Larq Zoo's number).
model = dict(backbone=dict(arch='large'))
