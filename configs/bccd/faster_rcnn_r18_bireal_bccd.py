_base_ = [
    '../_base_/models/faster_rcnn_r18_bccd_binary.py',
    '../_base_/datasets/bccd_detection_320x240.py',
    '../_base_/schedules/bccd_24e_binary.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/bireal.py',
]

# Blood cells with Bi-Real Net, from scratch: block and layers of ../coco/faster_rcnn_r18_bireal_coco.py.
model = dict(
    backbone=dict(block='bireal', conv_cfg=_base_.binary),
    rpn_head=dict(conv_cfg=_base_.binary),
    roi_head=dict(shared_head=dict(block='bireal', conv_cfg=_base_.binary)),
)
