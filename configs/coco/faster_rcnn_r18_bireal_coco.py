_base_ = [
    '../_base_/models/faster_rcnn_r18_c4_binary.py',
    '../_base_/datasets/coco_detection_1000x600.py',
    '../_base_/schedules/detection_12e_adam.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/bireal.py',
]

# The paper's COCO table, Faster-RCNN, Bi-Real Net 1-1: AP 14.4, AP50 29.0 on minival (the paper's numbers).
# The paper takes the row from BiDet, hence BiDet's schedule.
model = dict(
    backbone=dict(block='bireal', conv_cfg=_base_.binary),
    rpn_head=dict(conv_cfg=_base_.binary),
    roi_head=dict(shared_head=dict(block='bireal', conv_cfg=_base_.binary)),
)
train_dataloader = dict(batch_size=32)
