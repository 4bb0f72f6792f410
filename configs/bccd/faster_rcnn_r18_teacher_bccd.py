_base_ = '../_base_/models/faster_rcnn_r18_bccd_binary.py'

# Blood cells: the students' own blocks with real weights and real inputs, which teach and start them.
model = dict(
    backbone=dict(conv_cfg=None),
    rpn_head=dict(conv_cfg=None, block='react'),
    roi_head=dict(shared_head=dict(conv_cfg=None)),
)
