_base_ = [
    '../_base_/models/faster_rcnn_r18_bccd_binary.py',
    '../_base_/datasets/bccd_detection_320x240.py',
    '../_base_/schedules/bccd_24e_binary.py',
    '../_base_/runtime/binary.py',
]

# Blood cells: the students' own blocks with real weights and real inputs, which are their teacher and start.
model = dict(
    backbone=dict(conv_cfg=None),
    rpn_head=dict(conv_cfg=None, block='react'),
    roi_head=dict(shared_head=dict(conv_cfg=None)),
)
