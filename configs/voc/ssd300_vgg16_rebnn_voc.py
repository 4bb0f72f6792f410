_base_ = [
    '../_base_/models/ssd300_vgg16_binary.py',
    '../_base_/datasets/voc0712_ssd300.py',
    '../_base_/schedules/voc_ssd_sgd.py',
    '../_base_/runtime/binary_iter.py',
    '../_base_/methods/rebnn.py',
]

# SSD300 on VOC, ReBNN 1-1. The schedule is explained in ../coco/ssd300_vgg16_rebnn_coco.py.
train_dataloader = dict(batch_size=16)
model = dict(
    backbone=dict(block='react', conv_cfg=_base_.binary),
    neck=dict(conv_cfg=_base_.binary),
    bbox_head=dict(num_classes=20, anchor_generator=dict(basesize_ratio_range=(0.2, 0.9))),
)
