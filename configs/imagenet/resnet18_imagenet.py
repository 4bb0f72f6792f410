_base_ = 'mmpretrain::resnet/resnet18_8xb32_in1k.py'

# The paper's ImageNet table, full-precision ResNet-18: top-1 69.6, top-5 89.2 (the paper's numbers).
# mmpretrain's weights for this config reach 69.90 and 89.43 (mmpretrain's numbers).
