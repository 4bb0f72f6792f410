_base_ = [
    '../_base_/models/ssd300_vgg16_bidet.py',
    '../_base_/datasets/coco_ssd300.py',
    '../_base_/schedules/ssd_adam.py',
    '../_base_/runtime/binary_iter.py',
    '../_base_/methods/bidet.py',
]

# The paper's COCO table, SSD300, BiDet 1-1: AP 13.2, AP50 28.3 on minival (the paper's numbers).
# BiDet starts from a VGG-16 that is binary already, with average pooling and a linear layer on top; there is no such
# classifier here, so training starts from the full-precision one.
custom_hooks = [*_base_.custom_hooks, dict(type='BiDetLossHook')]
model = dict(backbone=dict(conv_cfg=_base_.binary), neck=dict(conv_cfg=_base_.binary))
