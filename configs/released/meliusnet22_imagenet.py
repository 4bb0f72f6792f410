_base_ = './quicknet_imagenet.py'

# Larq Zoo's MeliusNet-22, whose stem pools 2x2 positions: top-1 62.4, top-5 83.9 (Larq Zoo's number).
model = dict(
    backbone=dict(
        _delete_=True,
        type='MeliusNet',
        depth=22,
        stem_cfg=dict(type='Conv2dAdaptivePadding'),
        stem_pool=2,
        out_indices=(3,),
    )
)
