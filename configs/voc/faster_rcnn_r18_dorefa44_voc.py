_base_ = [
    '../_base_/models/faster_rcnn_r18_c4_rebnn.py',
    '../_base_/datasets/voc0712_1000x600.py',
    '../_base_/schedules/detection_12e_adam.py',
    '../_base_/rebnn_runtime.py',
]

# Faster R-CNN on VOC, DoReFa-Net 4-4, under BiDet's schedule for COCO.
custom_hooks = [dict(type='BinaryHook')]
binary = dict(
    type='DoReFaConv2d', weight=dict(type='DoReFaWeight', bits=4), activation=dict(type='DoReFaActivation', bits=4)
)
model = dict(
    backbone=dict(block='relu', conv_cfg=binary),
    rpn_head=dict(conv_cfg=binary, anchor_generator=dict(scales=[8, 16, 32])),
    roi_head=dict(shared_head=dict(block='relu', conv_cfg=binary), bbox_head=dict(num_classes=20)),
)
train_dataloader = dict(batch_size=32)
