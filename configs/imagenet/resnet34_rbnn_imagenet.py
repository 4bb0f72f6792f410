_base_ = './resnet18_rbnn_imagenet.py'

# The paper's ImageNet table, RBNN ResNet-34: top-1 63.1, top-5 84.4 (the paper's numbers).
# RBNN's repository also has 63.5 and 84.6, after 200 epochs.
model = dict(backbone=dict(depth=34))
