_base_ = [
    '../_base_/models/faster_rcnn_r18_c4_bidet.py',
    '../_base_/datasets/voc0712_1000x600.py',
    '../_base_/schedules/detection_12e_adam.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/bidet.py',
]

# Faster R-CNN on VOC, BiDet 1-1, under BiDet's schedule for COCO. BiDet's own table has 59.5 mAP for this form.
custom_hooks = [*_base_.custom_hooks, dict(type='BiDetLossHook')]
model = dict(
    backbone=dict(conv_cfg=_base_.binary),
    rpn_head=dict(conv_cfg=_base_.binary, anchor_generator=dict(scales=[8, 16, 32])),
    roi_head=dict(shared_head=dict(conv_cfg=_base_.binary), bbox_head=dict(num_classes=20)),
)
train_dataloader = dict(batch_size=32)
