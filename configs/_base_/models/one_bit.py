# A one-stage detector made for one bit: RTMDet's anchor-free head, assigner and losses on a binary backbone and neck.
# Towers are each level's own: a binary convolution is small in a file and costs the same time shared or not.
model = dict(
    type='RTMDet',
    data_preprocessor=dict(
        type='DetDataPreprocessor',
        mean=[103.53, 116.28, 123.675],
        std=[57.375, 57.12, 58.395],
        bgr_to_rgb=False,
        pad_size_divisor=32,
    ),
    backbone=dict(type='OneBitBackbone'),
    neck=dict(type='rebnn_mm.OneBitNeck'),
    bbox_head=dict(
        type='rebnn_mm.BinaryTowers',
        head='RTMDetSepBNHead',
        num_classes=80,
        share_conv=False,
        with_objectness=False,
        exp_on_reg=True,
        anchor_generator=dict(type='MlvlPointGenerator', offset=0, strides=[8, 16, 32]),
        bbox_coder=dict(type='DistancePointBBoxCoder'),
        loss_cls=dict(type='QualityFocalLoss', use_sigmoid=True, beta=2.0, loss_weight=1.0),
        loss_bbox=dict(type='GIoULoss', loss_weight=2.0),
    ),
    train_cfg=dict(
        assigner=dict(type='DynamicSoftLabelAssigner', topk=13), allowed_border=-1, pos_weight=-1, debug=False
    ),
    test_cfg=dict(
        nms_pre=200, min_bbox_size=0, score_thr=0.05, nms=dict(type='nms', iou_threshold=0.6), max_per_img=100
    ),
)
