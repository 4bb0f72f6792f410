_base_ = [
    '../_base_/models/ssd300_vgg16_binary.py',
    '../_base_/datasets/coco_ssd300.py',
    '../_base_/schedules/ssd_adam.py',
    '../_base_/runtime/binary_iter.py',
    '../_base_/methods/xnor.py',
]

# The paper's COCO table, SSD300, XNOR-Net 1-1: AP 8.1, AP50 19.5 on minival (the paper's numbers).
# XNOR-Net adds no shortcuts to a VGG: a chain of batch norm, sign and convolution. The paper takes the row from BiDet,
# hence BiDet's schedule.
model = dict(backbone=dict(block='bireal', shortcut=False, conv_cfg=_base_.binary), neck=dict(conv_cfg=_base_.binary))
