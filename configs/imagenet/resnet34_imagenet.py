_base_ = 'mmpretrain::resnet/resnet34_8xb32_in1k.py'

# The paper's ImageNet table, full-precision ResNet-34: top-1 73.3, top-5 91.3 (the paper's numbers).
# mmpretrain's weights for this config reach 73.62 and 91.59 (mmpretrain's numbers).
