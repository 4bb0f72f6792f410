# The layers of other methods in the same one-stage detector, on six classes of VOC 2012 at 224x224. All start from and
# are distilled by one teacher, the package's full-precision detector, which twelve epochs of these images have made.
# Only the convolutions differ: BiDet's losses are of two stages.
_base_ = './one_bit_voc6_224.py'

title = 'Layers of other methods in tiny, six classes of VOC (unit: 6 epochs)'
runs = []
for name, layer, label in (
    ('rebnn', 'ReBNNConv2d', 'ReBNN'),
    ('bireal', 'BiRealConv2d', 'Bi-Real Net'),
    ('bidet', 'BiDetConv2d', "BiDet's layers"),
    ('xnor', 'XNORConv2d', 'XNOR-Net'),
):
    convs = {f'model.{part}.conv_cfg': dict(_delete_=True, type=layer) for part in ('backbone', 'neck', 'bbox_head')}
    runs += [
        dict(
            name=name,
            label=label,
            config='configs/one_bit/tiny_taught_bccd.py',
            options={
                'optim_wrapper.type': 'Bfloat16OptimWrapper',
                'model.teacher': 'configs/one_bit/tiny_teacher_voc6.py',
                'model.teacher_checkpoint': 'rebnn://one_bit_tiny_photos',
                **({} if name == 'rebnn' else {**convs, 'custom_hooks': [dict(type='BinaryHook')]}),
            },
        )
    ]
del name, layer, label, convs
