_base_ = [
    '../_base_/models/ssd300_vgg16_binary.py',
    '../_base_/datasets/coco_ssd300.py',
    '../_base_/schedules/ssd_adam.py',
    '../_base_/runtime/binary_iter.py',
    '../_base_/methods/bireal.py',
]

# The paper's COCO table, SSD300, Bi-Real Net 1-1: AP 11.2, AP50 26.0 on minival (the paper's numbers).
# The paper takes the row from BiDet, hence BiDet's schedule.
model = dict(backbone=dict(block='bireal', conv_cfg=_base_.binary), neck=dict(conv_cfg=_base_.binary))
