_base_ = [
    '../_base_/models/faster_rcnn_r18_c4_binary.py',
    '../_base_/datasets/voc0712_1000x600.py',
    '../_base_/schedules/detection_12e_adam.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/dorefa_w4a4.py',
]

# Faster R-CNN on VOC, DoReFa-Net 4-4, under BiDet's schedule for COCO.
model = dict(
    backbone=dict(block='relu', conv_cfg=_base_.binary),
    rpn_head=dict(conv_cfg=_base_.binary, anchor_generator=dict(scales=[8, 16, 32])),
    roi_head=dict(shared_head=dict(block='relu', conv_cfg=_base_.binary), bbox_head=dict(num_classes=20)),
)
train_dataloader = dict(batch_size=32)
