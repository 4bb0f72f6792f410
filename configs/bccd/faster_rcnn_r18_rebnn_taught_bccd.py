_base_ = [
    '../_base_/models/faster_rcnn_r18_bccd_taught.py',
    '../_base_/datasets/bccd_detection_320x240.py',
    '../_base_/schedules/bccd_24e_binary.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/rebnn.py',
]

# Blood cells with ReBNN and a teacher of the same blocks, in one stage.
model = dict(
    backbone=dict(conv_cfg=_base_.binary),
    rpn_head=dict(conv_cfg=_base_.binary),
    roi_head=dict(shared_head=dict(conv_cfg=_base_.binary)),
)
