_base_ = [
    '../_base_/models/faster_rcnn_r18_bccd_binary.py',
    '../_base_/datasets/bccd_detection_320x240.py',
    '../_base_/schedules/bccd_24e_binary.py',
    '../_base_/runtime/binary.py',
    '../_base_/methods/bidet.py',
]

# Blood cells with BiDet, from scratch: convolutions, heads and losses of ../coco/faster_rcnn_r18_bidet_coco.py. The
# losses start when the learning rate has fallen to half, as in BiDet's schedules: here after twelve epochs.
custom_hooks = [*_base_.custom_hooks, dict(type='BiDetLossHook')]
model = dict(
    backbone=dict(block='bireal', conv_cfg=_base_.binary),
    rpn_head=dict(
        type='rebnn_mm.BiDetRPNHead',
        conv_cfg=_base_.binary,
        sample_sigma=0.001,
        bottleneck=dict(regularisation=0.5, prior=0.01),
    ),
    roi_head=dict(
        type='rebnn_mm.BiDetRoIHead',
        bottleneck=dict(regularisation=0.02, prior=0.05),
        suppression=dict(score_thr=0.01, iou_threshold=0.3),
        shared_head=dict(block='bireal', conv_cfg=_base_.binary),
        bbox_head=dict(type='rebnn_mm.BiDetBBoxHead', sample_sigma=0.001),
    ),
)
