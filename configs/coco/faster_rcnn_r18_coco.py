_base_ = [
    '../_base_/models/faster_rcnn_r18_c4.py',
    '../_base_/datasets/coco_detection_1000x600.py',
    '../_base_/schedules/detection_12e.py',
    'mmdet::_base_/default_runtime.py',
]

# Full-precision counterpart of faster_rcnn_r18_rebnn_coco.py from mmdet's own classes.
# The paper's COCO table, Faster-RCNN, full-precision: AP 26.0, AP50 44.8 on minival (the paper's numbers).
