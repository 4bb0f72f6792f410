# BiDet (SC) on SSD300 without its convolution: Bi-Real Net's block, and a head that predicts a mean and a log variance
# for every box coordinate and has two losses of its own. Weights and thresholds are those of BiDet's released code; so
# is sigma 0, with which the log variances are not trained.
_base_ = './ssd300_vgg16_binary.py'

model = dict(
    backbone=dict(block='bireal'),
    bbox_head=dict(
        type='rebnn_mm.BiDetSSDHead',
        sample_sigma=0.0,
        bottleneck=dict(regularisation=0.1, prior=0.2),
        suppression=dict(score_thr=0.03, iou_threshold=0.45, max_per_class=200),
    ),
)
