_base_ = './retinanet_r18_bccd.py'

# Blood cells with ATSS, from scratch: one anchor per point; full-precision counterpart of atss_r18_rebnn_bccd.py.
model = dict(
    type='ATSS',
    bbox_head=dict(
        _delete_=True,
        type='ATSSHead',
        num_classes=3,
        in_channels=128,
        stacked_convs=4,
        feat_channels=128,
        norm_cfg=_base_.norm_cfg,
        # As wide as the three kinds of cells: 24, 48 and 96 pixels.
        anchor_generator=dict(
            type='AnchorGenerator', ratios=[1.0], octave_base_scale=3, scales_per_octave=1, strides=[8, 16, 32]
        ),
        bbox_coder=dict(
            type='DeltaXYWHBBoxCoder', target_means=[0.0, 0.0, 0.0, 0.0], target_stds=[0.1, 0.1, 0.2, 0.2]
        ),
        loss_cls=dict(type='FocalLoss', use_sigmoid=True, gamma=2.0, alpha=0.25, loss_weight=1.0),
        loss_bbox=dict(type='GIoULoss', loss_weight=2.0),
        loss_centerness=dict(type='CrossEntropyLoss', use_sigmoid=True, loss_weight=1.0),
    ),
    train_cfg=dict(_delete_=True, assigner=dict(type='ATSSAssigner', topk=9), allowed_border=-1, pos_weight=-1),
)
