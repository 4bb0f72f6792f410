_base_ = [
    '../_base_/models/ssd300_vgg16_binary.py',
    '../_base_/datasets/coco_ssd300.py',
    '../_base_/schedules/ssd_adam.py',
    '../_base_/runtime/binary_iter.py',
    '../_base_/methods/rebnn.py',
]

# ssd300_vgg16_rebnn_coco.py under BiDet's schedule, the other reading of the paper.
model = dict(backbone=dict(block='react', conv_cfg=_base_.binary), neck=dict(conv_cfg=_base_.binary))
