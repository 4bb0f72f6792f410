_base_ = [
    './_base_/models/faster_rcnn_r18_fpn_rebnn.py',
    './_base_/datasets/coco_detection_1000x600.py',
    './_base_/schedules/rebnn_detection.py',
    './_base_/rebnn_runtime.py',
]

# The other reading of the paper's Faster-RCNN row: the FPN layout of IDa-Det, with binary laterals and outputs.
# See faster_rcnn_r18_rebnn_coco.py for why there are two.
binary = dict(type='ReBNNConv2d', gamma='adaptive', gamma_bounds=(1e-5, 2e-4))
model = dict(backbone=dict(conv_cfg=binary), neck=dict(conv_cfg=binary), rpn_head=dict(conv_cfg=binary))
