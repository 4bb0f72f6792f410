_base_ = './resnet18_adabin_imagenet.py'

# AdaBin's ResNet-34: top-1 66.4, top-5 86.6 (the authors' number).
model = dict(backbone=dict(depth=34))
