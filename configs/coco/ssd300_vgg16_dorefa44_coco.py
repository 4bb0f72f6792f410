_base_ = [
    '../_base_/models/ssd300_vgg16_binary.py',
    '../_base_/datasets/coco_ssd300.py',
    '../_base_/schedules/ssd_adam.py',
    '../_base_/runtime/binary_iter.py',
    '../_base_/methods/dorefa_w4a4.py',
]

# The paper's COCO table, SSD300, DoReFa-Net 4-4: AP 19.5, AP50 35.0 on minival (the paper's numbers).
# VGG's own chain of convolution, batch norm and ReLU, without shortcuts. The paper takes the row from BiDet, hence
# BiDet's schedule.
model = dict(backbone=dict(block='relu', shortcut=False, conv_cfg=_base_.binary), neck=dict(conv_cfg=_base_.binary))
