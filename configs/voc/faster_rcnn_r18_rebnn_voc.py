_base_ = [
    '../_base_/models/faster_rcnn_r18_c4_binary.py',
    '../_base_/datasets/voc0712_1000x600.py',
    '../_base_/schedules/rebnn_detection.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/rebnn.py',
]

# Faster R-CNN on VOC, ReBNN 1-1, with the paper's optimizer for COCO. The paper has no VOC results.
model = dict(
    backbone=dict(conv_cfg=_base_.binary),
    rpn_head=dict(conv_cfg=_base_.binary, anchor_generator=dict(scales=[8, 16, 32])),
    roi_head=dict(shared_head=dict(conv_cfg=_base_.binary), bbox_head=dict(num_classes=20)),
)
# COCO has seven times as many steps: at its rate only 44 % of the signs would flip in all (lab/reports/flips.md).
optim_wrapper = dict(paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=24))))
