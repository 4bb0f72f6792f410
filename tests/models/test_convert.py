import copy

import pytest
import torch
from mmengine.registry import MODELS
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

import rebnn_mm
from rebnn_mm import binarize, plan_binary, plan_table
from rebnn_mm.engine import ResilientGradient
from rebnn_mm.layers import BinaryLayer
from rebnn_mm.layers.report import layer_report
from rebnn_mm.methods import ReBNNConv2d, ReBNNLinear
from tests.models.networks import CONV, IMAGE, LINEAR, Network


def test_the_plan_is_what_is_done():
    torch.manual_seed(0)
    model = Network().train()
    plain = copy.deepcopy(model)
    plan = plan_binary(model, CONV, LINEAR, example=IMAGE)
    assert not any(isinstance(module, BinaryLayer) for module in model.modules())
    assert binarize(model, CONV, LINEAR, example=IMAGE) is model
    for row in plan:
        layer = model.get_submodule(row.name)
        assert isinstance(layer, BinaryLayer) == (row.name not in ('up', 'normed', 'spare'))
        assert getattr(layer, 'binary', False) == (row.real_because == '')
        if isinstance(layer, BinaryLayer):
            assert layer.layer_name == row.name and layer.real_because == row.real_because and layer.training
    before, after = plain.state_dict(), model.state_dict()
    assert all(torch.equal(after[key], value) for key, value in before.items())
    assert all('_quantizer' in key for key in after.keys() - before.keys())
    assert {type(m) for m in model.modules() if getattr(m, 'binary', False)} == {ReBNNConv2d, ReBNNLinear}
    model.load_state_dict(before, strict=False)


def test_what_stays_real_computes_what_it_did():
    model = Network().eval()
    names = [row.name for row in plan_binary(model, CONV, LINEAR, example=IMAGE)]
    plain = copy.deepcopy(model)
    x = torch.randn(2, 3, 8, 8)
    binarize(model, CONV, LINEAR, keep_real=names, example=IMAGE)
    assert torch.equal(model(x), plain(x)) and model.state_dict().keys() == plain.state_dict().keys()


def test_it_learns():
    model = binarize(Network(), CONV, LINEAR, example=IMAGE).train()
    model(torch.randn(4, 3, 8, 8)).square().sum().backward()
    assert all(m.weight.grad.abs().sum() > 0 for m in model.modules() if getattr(m, 'binary', False))


class Tied(nn.Module):
    """The second layer's weight is used once more: by a function, which may hold it itself, or in another's bias."""

    def __init__(self, use):
        super().__init__()
        self.stem, self.mid, self.last = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1)
        self.norm, self.use, self.held = nn.BatchNorm2d(4), use, [self.mid.weight]
        if use == 'parameter':
            self.tied = self.mid.weight
        elif use == 'bias':
            self.norm.bias = self.mid.bias

    def forward(self, x):
        x = self.norm(self.mid(self.stem(x).tanh())).to(self.mid.weight).tanh()
        if self.use == 'function':
            x = nn.functional.conv2d(x, self.held[0]).tanh()
        elif self.use == 'view':
            x = torch.einsum('ni,bihw->bnhw', self.mid.weight.flatten(1), x).tanh()
        return self.last(x)


@pytest.mark.parametrize(
    ('use', 'because'),
    [
        ('once', ''),
        ('function', 'its weight is used by a function outside of it'),
        ('view', 'its weight is used by a function outside of it'),
        ('parameter', 'shares a parameter with Tied'),
        ('bias', 'shares a parameter with norm'),
    ],
)
def test_a_layer_whose_weight_or_bias_is_used_elsewhere_stays_as_it_is(use, because):
    model = Tied(use).eval()
    mid = model.mid.weight
    plan = plan_binary(model, CONV, example=IMAGE)
    assert next(row.real_because for row in plan if row.name == 'mid') == because
    if because:
        with pytest.raises(ValueError, match=f"make_binary names 'mid', which cannot become binary: {because}"):
            binarize(model, CONV, example=IMAGE, make_binary=['mid'])
        assert binarize(model, CONV, example=IMAGE, make_binary=['last']).mid.weight is mid is model.held[0]


def test_an_optimizer_made_before_trains_the_weights():
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    before = dict(model.named_parameters())
    binarize(model, CONV, LINEAR, example=IMAGE)
    assert all(model.get_parameter(name) is parameter for name, parameter in before.items())
    with pytest.raises(ValueError, match=r'its weight is in this SGD, its alpha is not. Give both to the same'):
        ResilientGradient(model).attach(optimizer)


def test_options_of_a_convolution_are_kept():
    conv = nn.Conv2d(
        4, 6, (3, 1), stride=2, padding=(1, 0), dilation=(2, 1), groups=2, bias=False, padding_mode='reflect'
    )
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Tanh(), conv, nn.Tanh(), nn.Conv2d(6, 1, 1)).double()
    conv.weight.requires_grad_(False)
    new = binarize(model, CONV, example=IMAGE.double())[2]
    for key in ('stride', 'padding', 'dilation', 'groups', 'padding_mode', 'kernel_size', 'bias'):
        assert getattr(new, key) == getattr(conv, key)
    assert new.weight.dtype == torch.float64 and not new.weight.requires_grad


@pytest.mark.parametrize('layout', [torch.channels_last, torch.contiguous_format])
def test_the_layout_in_memory_is_kept(layout):
    model = Network().to(memory_format=layout)
    layouts = {name: value.stride() for name, value in model.state_dict().items()}
    binarize(model, CONV, LINEAR, example=IMAGE)
    assert all(model.state_dict()[name].stride() == stride for name, stride in layouts.items())


def test_a_layer_is_replaced_under_all_its_names():
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 4, 1)
            conv = nn.Conv2d(4, 4, 1)
            self.levels = nn.ModuleList(nn.Sequential(conv, nn.BatchNorm2d(4)) for _ in range(3))
            self.first, self.second = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1)
            self.second.weight = self.first.weight
            self.head = nn.Conv2d(4, 1, 1)

        def forward(self, x):
            x = self.stem(x).tanh()
            x = sum(level(x).relu() for level in self.levels)
            return self.head(self.second(self.first(x).tanh()).tanh())

    model = Shared()
    binarize(model, CONV, example=IMAGE)
    assert len({id(level[0]) for level in model.levels}) == 1 and model.levels[2][0].binary
    plan = plan_binary(Shared(), CONV, example=IMAGE)
    assert plan[2].real_because == 'shares a parameter with second' and type(model.first) is nn.Conv2d
    with pytest.raises(ValueError, match="make_binary names 'first', which cannot become binary: shares a parameter"):
        binarize(Shared(), CONV, make_binary=['first'], example=IMAGE)


def test_a_layer_is_replaced_where_pytorch_does_not_see_it():
    class Listed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.hidden, self.last = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1)
            self.layers = [self.first, self.hidden, self.last]

        def forward(self, x):
            first, hidden, last = self.layers
            return last(hidden(first(x).tanh()).tanh())

    model = binarize(Listed(), CONV, example=IMAGE)
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    assert model.layers[1] is model.hidden and model.hidden.binary and model.hidden.layer_name == 'hidden'
    assert all(p.grad is not None for p in model.parameters())


def test_names_go_before_rules():
    model = binarize(
        Network(),
        CONV,
        LINEAR,
        keep_real=['hidden'],
        make_binary=['depthwise', 'stem'],
        overrides={'point': dict(gamma=1e-4), 'fc': dict(type='XNORLinear')},
        example=IMAGE,
    )
    assert model.hidden.conv.real_because == 'named in keep_real (hidden)'
    assert model.depthwise.binary and model.stem.conv.binary
    assert model.point.weight_quantizer.gamma_mode == 1e-4 and type(model.fc).__name__ == 'XNORLinear'
    assert 'named in keep_real (hidden)' in layer_report(model)


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(), 'neither conv nor linear is given'),
        (dict(conv=dict(type='ReBNConv2d')), "conv='ReBNConv2d' is not such a layer. Did you mean 'ReBNNConv2d'?"),
        (
            dict(conv=dict(type='ReBNNConv2d', gama=1)),
            "conv of type ReBNNConv2d: no option 'gama'. Did you mean 'gamma'",
        ),
        (dict(conv='ReBNNConv2d'), r"conv='ReBNNConv2d' must be a dict, dict\(type='ReBNNConv2d'\)"),
        (dict(linear=CONV), "linear='ReBNNConv2d' is not such a layer"),
        (dict(conv=CONV, keep_real='stem'), r"keep_real='stem' must be a list of names, \['stem'\]"),
        (dict(conv=CONV, keep_real=None), 'keep_real=None must be a list of names'),
        (dict(conv=CONV, make_binary=[None]), r'make_binary=\[None\] must be a list of names'),
        (
            dict(conv=CONV, overrides=['stem']),
            r"overrides=\['stem'\] must be a dict of dicts, {name: dict\(gamma=0\)}",
        ),
        (dict(conv=CONV, overrides=dict(stem=None)), "overrides={'stem': None} must be a dict of dicts"),
        (dict(conv=CONV, make_binary=['steem']), "make_binary names 'steem', which fits no layer.*mean 'stem'"),
        (dict(conv=CONV, overrides={'nothing': {}}), "overrides names 'nothing', which fits no layer"),
        (dict(conv=CONV, make_binary=['up']), "names 'up', which cannot become binary: ConvTranspose2d has no binary"),
        (dict(conv=CONV, example=IMAGE[:, :2]), r'Network could not be run on 1x2x8x8 \(RuntimeError: .*Give another'),
        (dict(conv=CONV, example=None), 'what Network takes is not known; give example='),
    ],
)
def test_wrong_option_is_named_and_nothing_is_replaced(options, message):
    model = Network()
    with pytest.raises(ValueError, match=message):
        binarize(model, **{'example': IMAGE, **options})
    assert not any(isinstance(module, BinaryLayer) for module in model.modules())


def test_models_without_such_layers_and_binary_ones_are_refused():
    with pytest.raises(ValueError, match='Tanh has no convolution or linear layer'):
        binarize(nn.Tanh(), CONV, LINEAR, example=IMAGE)
    with pytest.raises(ValueError, match='Network has binary layers already'):
        binarize(binarize(Network(), CONV, example=IMAGE), CONV, example=IMAGE)


def stack() -> nn.Sequential:
    """A first layer, three that become binary, an output layer."""
    layers = [nn.Conv2d(3, 4, 1)]
    for _ in range(3):
        layers += [nn.Tanh(), nn.Conv2d(4, 4, 1)]
    return nn.Sequential(*layers, nn.Tanh(), nn.Conv2d(4, 2, 1))


def pruned(layer: nn.Module) -> nn.Module:
    return prune.l1_unstructured(layer, 'weight', 0.5)


def pruned_bias(layer: nn.Module) -> nn.Module:
    return prune.l1_unstructured(layer, 'bias', 0.5)


@pytest.mark.filterwarnings('ignore:.*weight_norm')
@pytest.mark.parametrize('called', [False, True], ids=['fresh', 'called'])
@pytest.mark.parametrize(
    'change',
    [spectral_norm, weight_norm, pruned, pruned_bias, parametrizations.weight_norm, parametrizations.spectral_norm],
    ids=lambda change: f'{change.__module__.rpartition(".")[2]}.{change.__name__}',
)
def test_a_layer_whose_weight_is_computed_stays_as_it_is(change, called):
    torch.manual_seed(0)
    model = stack()
    change(model[4])
    if called:
        model(torch.randn(2, 3, 8, 8)).sum().backward()
    binarize(model, CONV, example=IMAGE)
    assert not isinstance(model[4], BinaryLayer) and model[2].binary and model[6].binary
    plan = {row.name: row.real_because for row in plan_binary(stack_with(change), CONV, example=IMAGE)}
    assert plan['4'] == 'its weight is parametrized'
    with pytest.raises(ValueError, match="make_binary names '4', which cannot become binary: its weight is param"):
        binarize(stack_with(change), CONV, make_binary=['4'], example=IMAGE)
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    assert all(value.grad is not None for value in model[4].parameters())


def stack_with(change) -> nn.Sequential:
    model = stack()
    change(model[4])
    return model


def test_hooks_go_over_and_can_be_removed():
    model, called = stack(), []
    layer = model[4]
    handles = [
        layer.register_forward_pre_hook(lambda module, args: called.append('before')),
        layer.register_forward_hook(
            lambda module, args, kwargs, out: called.append(type(module).__name__), with_kwargs=True
        ),
        layer.register_full_backward_hook(lambda module, grads, out: called.append('back')),
        layer.register_full_backward_pre_hook(lambda module, grads: called.append('back at')),
    ]
    binarize(model, CONV, example=IMAGE)
    called.clear()
    x = torch.randn(2, 3, 8, 8)
    model(x).sum().backward()
    assert called == ['before', 'ReBNNConv2d', 'back at', 'back']
    for handle in handles:
        handle.remove()
    model(x).sum().backward()
    assert len(called) == 4


class Odd(nn.Conv2d):
    """A layer with the forward of a plain one, whose values cannot be read."""

    def state_dict(self, *args, **kwargs):
        raise RuntimeError('these values are elsewhere')


class Locked(nn.Tanh):
    def __deepcopy__(self, memo):
        raise TypeError("cannot pickle '_thread.lock' object")


def test_nothing_is_replaced_where_one_layer_cannot_be_read():
    model = stack()
    model[6] = Odd(4, 4, 1)
    with pytest.raises(RuntimeError, match='these values are elsewhere'):
        binarize(model, CONV, example=IMAGE)
    assert not any(isinstance(module, BinaryLayer) for module in model.modules())
    assert not parametrize.is_parametrized(model)


def test_what_cannot_be_copied_or_replaced_is_one_sentence():
    model = stack()
    model[1] = Locked()
    message = r"^binarize: Sequential cannot be copied, and a copy is what it is run on: '1' \(Locked\) fails with "
    with pytest.raises(ValueError, match=message):
        binarize(model, CONV, example=IMAGE)
    for make_binary in ([], ['*']):
        with pytest.raises(ValueError, match='the model is one Conv2d alone, .* put it into nn.Sequential'):
            binarize(nn.Conv2d(3, 3, 3), CONV, make_binary=make_binary, example=IMAGE)


def test_models_without_sizes_and_compiled_ones_are_refused():
    lazy = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Tanh(), nn.LazyConv2d(4, 1), nn.LazyBatchNorm2d())
    with pytest.raises(ValueError, match=r'binarize: 2.weight has no size yet \(a lazy layer\); run the model'):
        binarize(lazy, CONV, example=IMAGE)
    lazy(IMAGE)
    assert binarize(lazy, CONV, make_binary=['2'], example=IMAGE)[2].binary
    for model, part in ((stack(), 'the model'), (nn.Sequential(torch.compile(stack())), "its part '0'")):
        model = model if part != 'the model' else torch.compile(model)
        with pytest.raises(ValueError, match=f'binarize: {part} is compiled; make the model binary first'):
            binarize(model, CONV, example=IMAGE)


class Auxiliary(nn.Module):
    """Has a head that is for training only, as Inception's."""

    def __init__(self):
        super().__init__()
        self.body, self.side = stack(), nn.Sequential(nn.Conv2d(2, 4, 1), nn.Tanh(), nn.Conv2d(4, 4, 1))

    def forward(self, x):
        y = self.body(x)
        return (y, self.side(y)) if self.training else y


def test_what_was_not_called_is_said(monkeypatch):
    said = []
    monkeypatch.setattr('rebnn_mm.models.convert.print_log', lambda text, *rest: said.append(text))
    plan = plan_binary(Auxiliary(), CONV, example=IMAGE)
    assert '2 layers are not called on the example' in plan_table(plan)
    model = binarize(Auxiliary(), CONV, example=IMAGE)
    assert len(said) == 1 and 'keep full precision (side.0, side.2): name them in make_binary' in said[0]
    assert layer_report(model).count('Conv2d: not called') == 2
    assert binarize(Auxiliary(), CONV, make_binary=['side.2'], keep_real=['side.0'], example=IMAGE).side[2].binary
    assert len(said) == 1


def test_what_a_function_of_attention_reads_cannot_become_binary():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 8, 4, 4)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

        def forward(self, x):
            return self.layer(self.patches(x).flatten(2).transpose(1, 2))

    with pytest.raises(ValueError, match='cannot become binary: its weight is used by a function outside of it'):
        binarize(Encoder(), linear=LINEAR, make_binary=['out_proj'], example=IMAGE)
    model = binarize(Encoder(), linear=LINEAR, example=IMAGE)
    report = layer_report(model)
    assert '8x24                MultiheadAttention: MultiheadAttention has no binary form' in report
    assert '2 of 5 layers are binary; they hold 256 of 896 weights' in report


@pytest.mark.parametrize('way', ['binarize', 'conv_cfg'])
def test_branches_are_not_folded(way):
    from mmpretrain.models.backbones.repvgg import RepVGGBlock

    model = nn.Sequential(RepVGGBlock(3, 4), RepVGGBlock(4, 4, conv_cfg=CONV if way == 'conv_cfg' else None))
    if way == 'binarize':
        binarize(model, CONV, example=IMAGE)
    model = copy.deepcopy(model)
    x = torch.randn(1, 3, 8, 8)
    model.eval()(x)
    with pytest.raises(ValueError, match='branch_3x3.conv.: switch_to_deploy folds latent weights, not their signs'):
        model[1].switch_to_deploy()
    model[0].switch_to_deploy()
    assert hasattr(model[0], 'branch_reparam')


def test_the_log_names_what_starves(monkeypatch):
    def network(act):
        return nn.Sequential(nn.Conv2d(3, 4, 1), act(), nn.Conv2d(4, 4, 1), act(), nn.Conv2d(4, 2, 1))

    said = []
    monkeypatch.setattr('rebnn_mm.models.convert.print_log', lambda text, *rest: said.append(text))
    binarize(network(nn.Hardtanh), CONV, example=IMAGE)
    assert not said
    binarize(network(nn.ReLU), CONV, example=IMAGE)
    assert len(said) == 1 and 'Sequential: 1 layers become binary after a ReLU' in said[0]


@pytest.mark.parametrize('channels', [1, 3])
def test_the_log_names_what_may_see_an_image(monkeypatch, channels):
    said = []
    monkeypatch.setattr('rebnn_mm.models.convert.print_log', lambda text, *rest: said.append(text))
    sizes = [(3, channels), (channels, 4), (4, 4), (4, 2)]

    def network():
        return nn.Sequential(*[layer for pair in sizes for layer in (nn.Conv2d(*pair, 1), nn.Tanh())][:-1])

    plan = plan_binary(network(), CONV, example=IMAGE)
    assert 'in layers that become binary (2): name those that see an image in keep_real' in plan_table(plan)
    binarize(network(), CONV, example=IMAGE)
    assert len(said) == 1 and said[0].startswith('Sequential: 1 or 3 input channels')
    binarize(network(), CONV, keep_real=['2'], example=IMAGE)
    assert len(said) == 1


def test_a_config_keeps_the_keys_of_the_real_model():
    cfg = dict(type='BinaryVGGSmall', conv_cfg=None)
    real = MODELS.build(cfg)
    binarized = dict(cfg, type='rebnn_mm.Binarized', real=cfg['type'], conv=CONV, image_size=(32, 32))
    model = MODELS.build(binarized)
    assert type(model) is type(real)
    assert {key for key in model.state_dict() if '_quantizer' not in key} == set(real.state_dict())
    assert rebnn_mm.binarize is binarize
    with pytest.raises(ValueError, match="keep_real names 'nek', which fits no layer"):
        MODELS.build(dict(binarized, keep_real=['nek']))


def test_a_model_of_torchvision():
    from torchvision.models import resnet18

    model = binarize(resnet18(num_classes=4), CONV, LINEAR, example=torch.zeros(1, 3, 32, 32))
    real = {name: m.real_because for name, m in model.named_modules() if isinstance(m, BinaryLayer) and not m.binary}
    assert real == {
        'conv1': 'first layer',
        **{f'layer{stage}.0.downsample.0': 'shortcut' for stage in (2, 3, 4)},
        'fc': 'output layer',
    }
