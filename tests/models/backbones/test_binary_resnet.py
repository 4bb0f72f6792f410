import pytest
import torch
import torchvision
from mmengine.registry import MODELS
from torch import nn

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import BinaryResNet

CIFAR = dict(num_stages=3, strides=(1, 2, 2), dilations=(1, 1, 1), out_indices=(2,))
STAGE_ONE = dict(type='BinaryConv2d', weight=None, activation=dict(type='BinaryRSign'))


def small(**kwargs) -> BinaryResNet:
    return BinaryResNet(18, base_channels=8, **kwargs)


def is_extra(key: str) -> bool:
    """Whether a key of the state belongs to what a full-precision ResNet does not have."""
    return 'quantizer.' in key or '.act1.' in key or '.act2.' in key


@pytest.mark.parametrize(('depth', 'source'), [(18, torchvision.models.resnet18), (34, torchvision.models.resnet34)])
def test_keys_and_shapes_are_those_of_torchvision(depth, source):
    with torch.device('meta'):
        theirs = {k: v.shape for k, v in source().state_dict().items() if not k.startswith('fc.')}
        ours = {k: v.shape for k, v in BinaryResNet(depth).state_dict().items()}
    assert {k: v for k, v in ours.items() if not is_extra(k)} == theirs


def test_pretrained_torchvision_checkpoint_fills_every_convolution_and_norm(tmp_path):
    source = torchvision.models.resnet18().state_dict()
    torch.save(source, tmp_path / 'resnet18.pth')
    net = BinaryResNet(18, init_cfg=dict(type='Pretrained', checkpoint=str(tmp_path / 'resnet18.pth')))
    net.init_weights()
    filled = {k: v for k, v in net.state_dict().items() if not is_extra(k)}
    assert filled.keys() == {k for k in source if not k.startswith('fc.')}
    assert all(torch.equal(v, source[k]) for k, v in filled.items())


@pytest.mark.parametrize('block', ['react', 'bireal'])
def test_real_valued_first_stage_network_fits(block):
    activation = dict(type='BinaryRSign') if block == 'react' else dict(type='BinaryApproxSign')
    first = small(block=block, conv_cfg=dict(STAGE_ONE, activation=activation))
    second = small(block=block)
    missing, unexpected = second.load_state_dict(first.state_dict(), strict=False)
    assert unexpected == []
    assert missing
    assert all('.weight_quantizer.' in key for key in missing)


def test_first_layer_and_shortcuts_are_real_and_every_3x3_is_binary():
    convs = {name: m for name, m in BinaryResNet(34).named_modules() if isinstance(m, nn.Conv2d)}
    real = {name for name, m in convs.items() if type(m) is nn.Conv2d}
    assert real == {'conv1', 'layer2.0.downsample.0', 'layer3.0.downsample.0', 'layer4.0.downsample.0'}
    binary = [m for name, m in convs.items() if name not in real]
    assert len(binary) == 2 * (3 + 4 + 6 + 3)
    assert all(isinstance(m, BinaryConv2d) and m.binary and m.kernel_size == (3, 3) for m in binary)


@pytest.mark.parametrize('stem', ['imagenet', 'cifar'])
@pytest.mark.parametrize('block', ['react', 'bireal'])
def test_maps_have_the_documented_strides(stem, block):
    outs = small(stem=stem, block=block)(torch.randn(2, 3, 64, 32))
    first = {'imagenet': 4, 'cifar': 1}[stem]
    assert [tuple(y.shape) for y in outs] == [
        (2, 8 * 2**i, 64 // (first * 2**i), 32 // (first * 2**i)) for i in range(4)
    ]


@pytest.mark.parametrize('mode', ['training', 'evaluation'])
@pytest.mark.parametrize('block', ['react', 'adabin', 'hardtanh'])
def test_autocast_reaches_every_stage(block, mode):
    net = small(block=block).train(mode == 'training')
    seen = {}
    for name, layer in net.named_modules():
        layer.register_forward_hook(lambda module, args, y, name=name: seen.update({name: y}))
    with torch.no_grad(), torch.autocast('cpu', torch.bfloat16):
        net(torch.randn(2, 3, 32, 32))
    seen.pop('')
    assert {name for name, y in seen.items() if y.dtype != torch.bfloat16 and 'weight_quantizer' not in name} == set()


def test_resnet20_of_cifar_has_its_published_size():
    net = BinaryResNet(20, base_channels=16, stem='cifar', block='plain_cifar', conv_cfg=None, **CIFAR)
    assert [tuple(y.shape) for y in net(torch.randn(2, 3, 32, 32))] == [(2, 64, 8, 8)]
    classifier = 64 * 10 + 10
    # He et al. 2016, Table 6: 0.27 million.
    assert sum(p.numel() for p in net.parameters()) + classifier == 269_722


def test_stem_activation_comes_between_norm_and_pooling():
    torch.manual_seed(0)
    net = small(stem_act=dict(type='ReLU'), num_stages=1, strides=(1,), dilations=(1,), out_indices=(0,)).eval()
    net.layer1 = nn.Identity()
    x = torch.randn(1, 3, 32, 32)
    expected = nn.functional.max_pool2d(net.bn1(net.conv1(x)).relu(), 3, 2, padding=1)
    assert torch.equal(net(x)[0], expected)
    assert small().state_dict().keys() == small(stem_act=dict(type='ReLU')).state_dict().keys()


def test_frozen_stem_freezes_its_activation():
    net = small(stem_act=dict(type='Maxout', channels=8), frozen_stages=0).train()
    assert not any(p.requires_grad for p in net.stem_act.parameters())


def test_dilated_last_stage_keeps_resolution():
    net = small(strides=(1, 2, 2, 1), dilations=(1, 1, 1, 2))
    assert [y.shape[-1] for y in net(torch.randn(1, 3, 64, 64))] == [16, 8, 4, 4]


def test_fewer_stages():
    short = small(num_stages=3, strides=(1, 2, 2), dilations=(1, 1, 1), out_indices=(2,))
    assert not hasattr(short, 'layer4')
    assert [tuple(y.shape) for y in short(torch.randn(1, 3, 64, 64))] == [(1, 32, 4, 4)]


@pytest.mark.parametrize(('frozen_stages', 'frozen'), [(-1, set()), (0, {'conv1', 'bn1'})])
def test_the_stem_is_frozen_from_0_on(frozen_stages, frozen):
    net = small(frozen_stages=frozen_stages).train()
    assert {name.split('.')[0] for name, p in net.named_parameters() if not p.requires_grad} == frozen
    assert net.bn1.training == (frozen_stages < 0) and net.layer1.training


def test_default_initialisation_reaches_binary_layers():
    net = small()
    for conv in (net.conv1, net.layer4[1].conv2):
        nn.init.constant_(conv.weight, 5.0)
    net.init_weights()
    for conv in (net.conv1, net.layer4[1].conv2):
        fan_out = conv.out_channels * conv.kernel_size[0] * conv.kernel_size[1]
        assert conv.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.1)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(depth=50), r'depth=50 is not available. Use one of \[18, 20, 34\]'),
        (dict(stem='tiny'), "stem='tiny' is unknown. Use 'imagenet', 'keras' or 'cifar'"),
        (dict(depth=20), r'depth=20 has 3 stages, not num_stages=4. Set num_stages=3, strides'),
        (dict(num_stages=5), 'num_stages=5 is not in 1 to 4'),
        (dict(num_stages=3), 'need num_stages=3 entries each'),
        (dict(block='resnext'), "block='resnext' is not a registered block style"),
    ],
)
def test_wrong_options_are_refused_with_the_fix(options, message):
    with pytest.raises(ValueError, match=message):
        BinaryResNet(**{'depth': 18, 'base_channels': 8, **options})


def test_is_a_backbone_for_mmpretrain():
    mmpretrain = pytest.importorskip('mmpretrain')
    mmpretrain.utils.register_all_modules()
    model = MODELS.build(
        dict(
            type='mmpretrain.ImageClassifier',
            backbone=dict(type='BinaryResNet', depth=18, base_channels=8, stem='cifar', out_indices=(3,)),
            neck=dict(type='GlobalAveragePooling'),
            head=dict(type='LinearClsHead', num_classes=5, in_channels=64, loss=dict(type='CrossEntropyLoss')),
        )
    )
    samples = [mmpretrain.structures.DataSample().set_gt_label(label) for label in (1, 4)]
    loss = model(torch.randn(2, 3, 32, 32), samples, mode='loss')['loss']
    loss.backward()
    assert loss.isfinite()
    assert model.backbone.layer1[0].conv1.weight.grad.abs().sum() > 0
    prediction = model.eval()(torch.randn(2, 3, 32, 32), mode='predict')
    assert [p.pred_score.shape for p in prediction] == [(5,), (5,)]


def test_size_of_real_to_binary_is_the_published_one():
    """Larq Zoo prints 11,995,624 parameters, with four values for each channel of a norm, and 5.13 MB, with two."""
    with torch.device('meta'):
        stem_act = dict(type='PReLU', num_parameters=64)
        net = BinaryResNet(18, block='real_to_binary', stem_act=stem_act, conv_cfg=dict(type='BNNConv2d'))
    statistics = sum(2 * m.num_features for m in net.modules() if isinstance(m, nn.BatchNorm2d))
    parameters = sum(p.numel() for p in net.parameters()) + 512 * 1000 + 1000
    assert parameters + statistics == 11_995_624
    bits = sum(m.weight.numel() for m in net.modules() if isinstance(m, BinaryConv2d))
    assert (bits / 8 + 4 * (parameters - bits)) / 2**20 == pytest.approx(5.13, abs=0.005)
