_base_ = [
    '../_base_/models/faster_rcnn_r18_fpn_binary.py',
    '../_base_/datasets/coco_detection_1000x600.py',
    '../_base_/schedules/rebnn_detection.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/rebnn.py',
]

# The other reading of the paper's Faster-RCNN row: the FPN layout of IDa-Det, with binary laterals and outputs.
# See faster_rcnn_r18_rebnn_coco.py for why there are two.
model = dict(
    backbone=dict(conv_cfg=_base_.binary), neck=dict(conv_cfg=_base_.binary), rpn_head=dict(conv_cfg=_base_.binary)
)
