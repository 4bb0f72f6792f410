_base_ = [
    '../_base_/models/faster_rcnn_r18_bccd_taught.py',
    '../_base_/datasets/bccd_detection_320x240.py',
    '../_base_/schedules/bccd_24e_binary.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/react.py',
]

# Stage 1 of two: real weights, binary inputs (W32A1), from the teacher's weights.
model = dict(
    backbone=dict(conv_cfg=dict(_base_.binary, weight=None)),
    rpn_head=dict(conv_cfg=dict(_base_.binary, weight=None)),
    roi_head=dict(shared_head=dict(conv_cfg=dict(_base_.binary, weight=None))),
)
