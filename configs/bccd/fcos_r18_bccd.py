_base_ = './retinanet_r18_bccd.py'

# Blood cells with FCOS, from scratch: no anchors; full-precision counterpart of fcos_r18_rebnn_bccd.py. Centre
# sampling, centerness next to the boxes and sizes in strides are those of mmdet's improved FCOS.
model = dict(
    type='FCOS',
    bbox_head=dict(
        _delete_=True,
        type='FCOSHead',
        num_classes=3,
        in_channels=128,
        stacked_convs=4,
        feat_channels=128,
        norm_cfg=_base_.norm_cfg,
        strides=[8, 16, 32],
        # The farthest side of platelets lies within 32 pixels, that of red cells within 64.
        regress_ranges=((-1, 32), (32, 64), (64, 1e8)),
        center_sampling=True,
        centerness_on_reg=True,
        norm_on_bbox=True,
        loss_cls=dict(type='FocalLoss', use_sigmoid=True, gamma=2.0, alpha=0.25, loss_weight=1.0),
        loss_bbox=dict(type='GIoULoss', loss_weight=1.0),
        loss_centerness=dict(type='CrossEntropyLoss', use_sigmoid=True, loss_weight=1.0),
    ),
    train_cfg=None,
)
