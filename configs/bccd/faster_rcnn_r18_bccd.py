# Blood cells, from scratch; full-precision counterpart of faster_rcnn_r18_rebnn_bccd.py.
_base_ = [
    '../_base_/models/faster_rcnn_r18_bccd.py',
    '../_base_/datasets/bccd_detection_320x240.py',
    '../_base_/schedules/bccd_24e.py',
    'mmdet::_base_/default_runtime.py',
]
