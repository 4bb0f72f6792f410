_base_ = [
    '../_base_/models/faster_rcnn_r18_c4_binary.py',
    '../_base_/datasets/coco_detection_1000x600.py',
    '../_base_/schedules/rebnn_detection.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/rebnn.py',
]

# The paper's COCO table, Faster-RCNN, ReBNN 1-1: AP 19.6, AP50 37.6 on minival (the paper's numbers).
# Its size and operation count are those of this C4 layout; its learning rate is that of IDa-Det, the same group's FPN
# code base. Which of the two gave the AP is not said: faster_rcnn_r18_fpn_rebnn_coco.py is the other reading.
model = dict(
    backbone=dict(conv_cfg=_base_.binary),
    rpn_head=dict(conv_cfg=_base_.binary),
    roi_head=dict(shared_head=dict(conv_cfg=_base_.binary)),
)
