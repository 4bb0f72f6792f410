# BiDet (SC) without its convolution: Bi-Real Net's block, heads that predict a mean and a log variance for every box
# coordinate, and two losses of their own. Weights, sigma and thresholds are those of BiDet's released code.
# The paper's tables show this form as BiDet; the form without shortcuts (SC) has never been released.
_base_ = './faster_rcnn_r18_c4_binary.py'

model = dict(
    backbone=dict(block='bireal'),
    rpn_head=dict(
        type='rebnn_mm.BiDetRPNHead',
        sample_sigma=0.001,
        # regularisation: mean square of the head's features; prior: entropy of the scores kept, per object.
        bottleneck=dict(regularisation=0.5, prior=0.01),
    ),
    roi_head=dict(
        type='rebnn_mm.BiDetRoIHead',
        bottleneck=dict(regularisation=0.02, prior=0.05),
        suppression=dict(score_thr=0.01, iou_threshold=0.3),
        shared_head=dict(block='bireal'),
        bbox_head=dict(type='rebnn_mm.BiDetBBoxHead', sample_sigma=0.001),
    ),
)
