_base_ = [
    '../_base_/models/faster_rcnn_r18_c4.py',
    '../_base_/datasets/voc0712_1000x600.py',
    '../_base_/schedules/detection_12e.py',
    'mmdet::_base_/default_runtime.py',
]

# Faster R-CNN on VOC, full-precision, from mmdet's own classes. The three anchor scales are BiDet's for VOC.
model = dict(
    rpn_head=dict(anchor_generator=dict(scales=[8, 16, 32])),
    roi_head=dict(bbox_head=dict(num_classes=20)),
)
