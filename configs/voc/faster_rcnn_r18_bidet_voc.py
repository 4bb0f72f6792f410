_base_ = [
    '../_base_/models/faster_rcnn_r18_c4_bidet.py',
    '../_base_/datasets/voc0712_1000x600.py',
    '../_base_/schedules/detection_12e_adam.py',
    '../_base_/binary_runtime.py',
]

# Faster R-CNN on VOC, BiDet 1-1, under BiDet's schedule for COCO. BiDet's own table has 59.5 mAP for this form.
custom_hooks = [dict(type='BinaryHook'), dict(type='BiDetLossHook')]
model = dict(
    rpn_head=dict(anchor_generator=dict(scales=[8, 16, 32])),
    roi_head=dict(bbox_head=dict(num_classes=20)),
)
train_dataloader = dict(batch_size=32)
