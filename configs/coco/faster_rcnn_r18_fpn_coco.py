_base_ = [
    '../_base_/models/faster_rcnn_r18_fpn.py',
    '../_base_/datasets/coco_detection_1000x600.py',
    '../_base_/schedules/detection_12e.py',
    'mmdet::_base_/default_runtime.py',
]

# Full-precision counterpart of faster_rcnn_r18_fpn_rebnn_coco.py from mmdet's own classes.
