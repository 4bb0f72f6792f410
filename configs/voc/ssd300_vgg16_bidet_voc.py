_base_ = [
    '../_base_/models/ssd300_vgg16_bidet.py',
    '../_base_/datasets/voc0712_ssd300.py',
    '../_base_/schedules/voc_ssd_adam.py',
    '../_base_/runtime/binary_iter.py',
    '../_base_/methods/bidet.py',
]

# SSD300 on VOC, BiDet 1-1: 66.0 mAP (BiDet's number, from its repository). Where training starts from is explained in
# ../coco/ssd300_vgg16_bidet_coco.py.
custom_hooks = [*_base_.custom_hooks, dict(type='BiDetLossHook')]
model = dict(
    backbone=dict(conv_cfg=_base_.binary),
    neck=dict(conv_cfg=_base_.binary),
    bbox_head=dict(num_classes=20, anchor_generator=dict(basesize_ratio_range=(0.2, 0.9))),
)
