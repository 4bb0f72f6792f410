_base_ = [
    '../_base_/models/faster_rcnn_r18_c4_bidet.py',
    '../_base_/datasets/coco_detection_1000x600.py',
    '../_base_/schedules/detection_12e_adam.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/bidet.py',
]

# The paper's COCO table, Faster-RCNN, BiDet 1-1: AP 15.7, AP50 31.0 on minival (the paper's numbers).
# BiDet starts from a classifier that is binary already: see resnet18_bireal_imagenet.py and docs/models.md.
custom_hooks = [*_base_.custom_hooks, dict(type='BiDetLossHook')]
model = dict(
    backbone=dict(conv_cfg=_base_.binary),
    rpn_head=dict(conv_cfg=_base_.binary),
    roi_head=dict(shared_head=dict(conv_cfg=_base_.binary)),
)
train_dataloader = dict(batch_size=32)
