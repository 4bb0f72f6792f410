_base_ = './quicknet_imagenet.py'

# Larq Zoo's Real-to-Binary network, with Keras' padding: top-1 65.01, top-5 85.72 (Larq Zoo's number). The
# three stages of its training are in networks/real_to_binary_imagenet.py.
model = dict(
    backbone=dict(
        _delete_=True,
        type='BinaryResNet',
        depth=18,
        block='real_to_binary',
        stem='keras',
        stem_act=dict(type='PReLU', num_parameters=64),
        out_indices=(3,),
        conv_cfg=dict(pad_end=True, **_base_.binary),
    )
)
