_base_ = [
    '../_base_/models/faster_rcnn_r18_c4_binary.py',
    '../_base_/datasets/coco_detection_1000x600.py',
    '../_base_/schedules/detection_12e_adam.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/dorefa_w4a4.py',
]

# The paper's COCO table, Faster-RCNN, DoReFa-Net 4-4: AP 22.9, AP50 38.6 on minival (the paper's numbers).
# The paper takes the row from BiDet, hence BiDet's schedule.
model = dict(
    backbone=dict(block='relu', conv_cfg=_base_.binary),
    rpn_head=dict(conv_cfg=_base_.binary),
    roi_head=dict(shared_head=dict(block='relu', conv_cfg=_base_.binary)),
)
train_dataloader = dict(batch_size=32)
