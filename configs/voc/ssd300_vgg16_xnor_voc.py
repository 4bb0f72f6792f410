_base_ = [
    '../_base_/models/ssd300_vgg16_binary.py',
    '../_base_/datasets/voc0712_ssd300.py',
    '../_base_/schedules/voc_ssd_adam.py',
    '../_base_/runtime/binary_iter.py',
    '../_base_/methods/xnor.py',
]

# SSD300 on VOC, XNOR-Net 1-1. Structure and schedule are explained in ../coco/ssd300_vgg16_xnor_coco.py.
model = dict(
    backbone=dict(block='bireal', shortcut=False, conv_cfg=_base_.binary),
    neck=dict(conv_cfg=_base_.binary),
    bbox_head=dict(num_classes=20, anchor_generator=dict(basesize_ratio_range=(0.2, 0.9))),
)
