import pytest
import torch
import torchvision
from mmengine.registry import MODELS
from torch import nn

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import BinarySSDVGG

VGG_LAYERS = [f'conv{i}_{j}' for i, n in enumerate((2, 2, 3, 3, 3), start=1) for j in range(1, n + 1)]
STRIDED = [f'pool{i}' for i in range(1, 5)]
SUMS = [1.8989368867332814, -3.246851929463446, -8.793076993431896]
"""Of the weights of conv1_1, pool1 and conv7, with seed 0."""


def small(**kwargs) -> BinarySSDVGG:
    return BinarySSDVGG(base_channels=4, **kwargs)


def convolutions(net: nn.Module) -> dict[str, nn.Conv2d]:
    return {name: m for name, m in net.named_modules() if isinstance(m, nn.Conv2d)}


def caffe_vgg(conv6_and_7: bool = True) -> dict[str, torch.Tensor]:
    """Keys and shapes of a full-precision VGG-16 without BN, as SSD uses it, at one sixteenth of its width."""
    shapes = [(4, 3), (4, 4), (8, 4), (8, 8), (16, 8), (16, 16), (16, 16), (32, 16), *[(32, 32)] * 5]
    indices = [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28]
    weights = {i: torch.randn(*shape, 3, 3) for i, shape in zip(indices, shapes, strict=True)}
    if conv6_and_7:
        weights |= {31: torch.randn(64, 32, 3, 3), 33: torch.randn(64, 64, 1, 1)}
    return {
        f'features.{i}.{name}': value
        for i, weight in weights.items()
        for name, value in (('weight', weight), ('bias', torch.randn(len(weight))))
    }


def test_seventeen_layers_before_conv6_all_but_the_first_binary():
    net = small()
    assert [name for name in net.sequence if name not in ('pool5', 'conv6', 'conv7')] == [
        *VGG_LAYERS[:2], 'pool1', *VGG_LAYERS[2:4], 'pool2', *VGG_LAYERS[4:7], 'pool3', *VGG_LAYERS[7:10], 'pool4',
        *VGG_LAYERS[10:],
    ]  # fmt: skip
    convs = convolutions(net)
    real = {name for name, m in convs.items() if type(m) is nn.Conv2d}
    widening = {f'conv{i}_1.downsample.0' for i in (2, 3, 4)}
    assert real == {'conv1_1.conv', 'conv7.conv'} | widening | {f'{name}.downsample.0' for name in STRIDED}
    binary = {name: m for name, m in convs.items() if name not in real}
    assert binary.keys() == {f'{name}.conv' for name in [*VGG_LAYERS[1:], *STRIDED, 'conv6']}
    assert all(isinstance(m, BinaryConv2d) and m.binary and m.kernel_size == (3, 3) for m in binary.values())


def test_strided_convolutions_widen_where_asked():
    net = small(widen='pool')
    shapes = {name: tuple(m.weight.shape[:2]) for name, m in convolutions(net).items() if m.kernel_size == (3, 3)}
    assert [shapes[f'{name}.conv'] for name in STRIDED] == [(8, 4), (16, 8), (32, 16), (32, 32)]
    assert all(shapes[f'conv{i}_1.conv'] == (c, c) for i, c in ((2, 8), (3, 16), (4, 32), (5, 32)))
    assert {name.split('.')[0] for name in net.state_dict() if 'downsample' in name} == set(STRIDED)
    assert [tuple(y.shape) for y in net.eval()(torch.randn(1, 3, 64, 64))] == [(1, 32, 8, 8), (1, 64, 4, 4)]


def test_without_being_asked_a_seed_gives_the_weights_that_it_gave():
    """Recorded runs begin with these."""
    torch.manual_seed(0)
    net = small()
    net.init_weights()
    sums = [getattr(net, name).conv.weight.double().sum().item() for name in ('conv1_1', 'pool1', 'conv7')]
    assert sums == pytest.approx(SUMS, abs=1e-6)


def test_maps_are_conv4_3_and_conv7_at_the_sizes_of_ssd300():
    outs = small().eval()(torch.randn(1, 3, 300, 300))
    assert [tuple(y.shape) for y in outs] == [(1, 32, 38, 38), (1, 64, 19, 19)]
    assert (outs[0] < 0).any()
    assert (outs[1] >= 0).all()


def test_out_indices():
    x = torch.randn(1, 3, 64, 64)
    net = small().eval()
    both = net(x)
    for index in (0, 1):
        one = small(out_indices=(index,)).eval()
        one.load_state_dict(net.state_dict())
        assert torch.equal(one(x)[0], both[index])


def test_conv6_sees_as_far_as_the_fully_connected_layer_it_replaces():
    conv6 = small().conv6.conv
    assert (conv6.kernel_size, conv6.dilation, conv6.padding) == ((3, 3), (6, 6), (6, 6))
    assert conv6.binary


def test_parameters_of_the_full_width_are_those_of_vgg_and_its_shortcuts():
    with torch.device('meta'):
        vgg = torchvision.models.vgg16_bn().features
        ours = BinarySSDVGG(block='bireal', conv_cfg=dict(type='BinaryConv2d'))
    weights = {name: m.weight.numel() for name, m in convolutions(ours).items()}
    thirteen = sum(m.weight.numel() for m in convolutions(vgg).values())
    assert sum(weights[f'{name}.conv'] for name in VGG_LAYERS) == thirteen
    assert sum(weights[f'{name}.conv'] for name in STRIDED) == 9 * sum(c**2 for c in (64, 128, 256, 512))
    shortcuts = sum(n for name, n in weights.items() if 'downsample' in name)
    assert shortcuts == sum(c**2 for c in (64, 128, 256, 512)) + sum(2 * c**2 for c in (64, 128, 256))
    assert weights['conv6.conv'] == 512 * 1024 * 9
    assert weights['conv7.conv'] == 1024**2


@pytest.mark.parametrize('bn', [False, True])
def test_weights_of_torchvision_fill_the_thirteen_convolutions(bn, tmp_path):
    with torch.device('meta'):
        features = (torchvision.models.vgg16_bn() if bn else torchvision.models.vgg16()).features
    source = nn.ModuleDict(dict(features=features.to_empty(device='cpu')))
    for value in source.state_dict().values():
        value.copy_(torch.randn(value.shape) if value.is_floating_point() else 0)
    torch.save(source.state_dict(), tmp_path / 'vgg.pth')
    net = BinarySSDVGG(init_cfg=dict(type='Pretrained', checkpoint=str(tmp_path / 'vgg.pth')))
    net.init_weights()
    theirs = [m.weight for m in convolutions(features).values()]
    ours = [getattr(net, name).conv.weight for name in VGG_LAYERS]
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
    alpha = net.conv5_3.conv.weight_quantizer.alpha
    torch.testing.assert_close(alpha, theirs[-1].abs().mean(dim=(1, 2, 3)))
    if bn:
        nn.init.normal_(features[41].weight)
        net.load_state_dict(source.state_dict(), strict=False)
        assert torch.equal(net.conv5_3.bn.weight, features[41].weight)


def test_caffe_weights_fill_conv6_and_conv7_too():
    net, source = small(), caffe_vgg()
    missing, unexpected = net.load_state_dict(source, strict=False)
    assert unexpected == []
    assert torch.equal(net.conv6.conv.weight, source['features.31.weight'])
    assert torch.equal(net.conv7.conv.weight, source['features.33.weight'])
    loaded = {f'{name}.conv.weight' for name in [*VGG_LAYERS, 'conv6', 'conv7']}
    assert not loaded & set(missing)
    assert {f'{name}.conv.weight' for name in STRIDED} <= set(missing)


def test_prefix_of_a_larger_model_is_respected():
    model = nn.ModuleDict(dict(backbone=small()))
    source = {f'backbone.{key}': value for key, value in caffe_vgg(conv6_and_7=False).items()}
    _, unexpected = model.load_state_dict(source, strict=False)
    assert unexpected == []
    assert torch.equal(model['backbone'].conv3_2.conv.weight, source['backbone.features.12.weight'])


def test_own_checkpoint_is_loaded_as_it_is():
    first, second = small(), small()
    second.load_state_dict(first.state_dict())
    assert all(torch.equal(v, first.state_dict()[k]) for k, v in second.state_dict().items())


@pytest.mark.parametrize('block', ['bireal', 'react', 'hardtanh', 'relu'])
def test_real_valued_first_stage_network_fits(block):
    first = small(block=block, conv_cfg=dict(type='BinaryConv2d', weight=None))
    missing, unexpected = small(block=block).load_state_dict(first.state_dict(), strict=False)
    assert unexpected == []
    assert missing
    assert all('.weight_quantizer.' in key for key in missing)


def test_without_shortcut_the_network_is_a_chain():
    net = small(block='bireal', shortcut=False, conv_cfg=dict(type='XNORConv2d'))
    assert not any('downsample' in name for name in net.state_dict())
    nn.init.zeros_(net.conv2_2.bn.weight)
    nn.init.zeros_(net.conv2_2.bn.bias)
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(net(x)[0], net(-x)[0])


def test_without_conv_cfg_the_same_structure_is_real():
    net = small(block='relu', conv_cfg=None)
    assert {type(m) for m in convolutions(net).values()} == {nn.Conv2d}
    binary = small(block='relu').state_dict()
    assert {k for k in binary if 'quantizer.' not in k} == set(net.state_dict())


def test_default_initialisation_reaches_binary_layers():
    net = small()
    nn.init.constant_(net.conv6.conv.weight, 5.0)
    net.init_weights()
    assert net.conv6.conv.weight.std().item() == pytest.approx((2 / (64 * 9)) ** 0.5, rel=0.1)


@pytest.mark.parametrize(
    ('options', 'error', 'message'),
    [
        (dict(out_indices=(2,)), ValueError, r'out_indices=\(2,\) must name maps: 0 \(conv4_3\), 1 \(conv7\)'),
        (dict(out_indices=()), ValueError, r'out_indices=\(\) must name maps'),
        (dict(widen='pool1'), ValueError, "widen='pool1' is unknown; use 'conv' or 'pool'"),
        (dict(block='preact'), ValueError, 'BinaryPreActBlock is made for two convolutions'),
        (dict(block='vgg'), ValueError, "block='vgg' is not a registered block style"),
    ],
)
def test_wrong_options_are_refused_with_the_fix(options, error, message):
    with pytest.raises(error, match=message):
        small(**options)


def test_checkpoint_of_another_vgg_is_refused():
    eleven = {k: v for k, v in caffe_vgg().items() if k.split('.')[1] in ('0', '5', '10', '17', '24')}
    with pytest.raises(ValueError, match="has 5 convolutions under features; VGG-16 has 13, SSD's 15"):
        small().load_state_dict(eleven, strict=False)


def test_vgg_does_not_fit_where_strided_convolutions_widen():
    with pytest.raises(ValueError, match="does not fit widen='pool', .* Use widen='conv', or another checkpoint"):
        small(widen='pool').load_state_dict(caffe_vgg(), strict=False)


def test_is_a_backbone_for_mmpretrain():
    """The binary classifier that a detector starts from: the same network under global average pooling."""
    mmpretrain = pytest.importorskip('mmpretrain')
    torch.manual_seed(0)
    mmpretrain.utils.register_all_modules()
    model = MODELS.build(
        dict(
            type='mmpretrain.ImageClassifier',
            backbone=dict(type='BinarySSDVGG', base_channels=4, out_indices=(1,)),
            neck=dict(type='GlobalAveragePooling'),
            head=dict(type='LinearClsHead', num_classes=5, in_channels=64, loss=dict(type='CrossEntropyLoss')),
        )
    )
    samples = [mmpretrain.structures.DataSample().set_gt_label(label) for label in (1, 4)]
    model(torch.randn(2, 3, 96, 96), samples, mode='loss')['loss'].backward()
    assert all(m.weight.grad.abs().sum() > 0 for m in convolutions(model).values())
    detector = small()
    detector.load_state_dict(
        {k.removeprefix('backbone.'): v for k, v in model.state_dict().items() if 'head' not in k}
    )
    assert torch.equal(detector.conv7.conv.weight, model.backbone.conv7.conv.weight)
