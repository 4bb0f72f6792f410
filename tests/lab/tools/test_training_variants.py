from lab.tools.training_variants import OURS, swap_layers


def test_variants_differ_in_the_layers_only():
    conv = dict(type='ReBNNConv2d', gamma='max')
    model = dict(
        backbone=dict(depth=18, conv_cfg=conv, init_cfg=dict(type='Pretrained', checkpoint='torchvision://resnet18')),
        heads=[dict(conv_cfg=conv), dict(conv_cfg=dict(type='DCN'))],
    )
    plain = swap_layers(model, 'BinaryConv2d')
    assert plain == dict(
        backbone=dict(depth=18, conv_cfg=dict(type='BinaryConv2d'), init_cfg=None),
        heads=[dict(conv_cfg=dict(type='BinaryConv2d')), dict(conv_cfg=dict(type='DCN'))],
    )
    assert swap_layers(model, None)['heads'] == [dict(conv_cfg=None), dict(conv_cfg=dict(type='DCN'))]
    assert swap_layers(model, OURS)['backbone']['conv_cfg'] == conv
