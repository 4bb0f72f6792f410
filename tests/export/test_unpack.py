"""What a packed file holds goes back into a network, which then computes the same and can learn."""

from copy import deepcopy

import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from torch import nn
from torch.nn import functional as F

from rebnn_mm.deploy.zoo import zoo_path
from rebnn_mm.export import passes
from rebnn_mm.export.exporter import export
from rebnn_mm.export.options import PLAIN, Options
from rebnn_mm.export.unpack import _fill_layer, fit_norms, unpack
from rebnn_mm.methods import ReBNNConv2d
from rebnn_mm.models.blocks import RPReLU
from rebnn_mm.quantizers import Values, WeightQuantizer
from rebnn_mm.registry import MODELS
from tests.export.conftest import tiny_classifier
from tests.export.networks import METHODS, lively

WITHOUT_SCALE = ('OvSW', 'SiMaN')
"""Their factor is made of standardised weights, or their signs of magnitudes, so that neither can be given to them."""

OTHERS = [method for method in METHODS if method not in ('ReBNN', *WITHOUT_SCALE)]


class Small(nn.Module):
    """A real first layer with its norm, a binary block with a shortcut, a predictor."""

    def __init__(self, method: str = 'ReBNN', bias: bool = False) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=bias), nn.BatchNorm2d(16)
        binary = dict(type=f'{method}Conv2d', in_channels=16, out_channels=16, kernel_size=3, padding=1, bias=bias)
        self.conv, self.norm2, self.act = MODELS.build(binary), nn.BatchNorm2d(16), RPReLU(16)
        self.last = nn.Linear(16, 5)

    def forward(self, x):
        x = F.relu(self.norm1(self.first(x)))
        x = self.act(self.norm2(self.conv(x)) + x)
        return self.last(x.mean(dim=(2, 3)))


def packed(model: nn.Module, options: Options = PLAIN) -> onnx.ModelProto:
    return onnx.load_from_string(export(model, options, size=(16, 16)).data)


def outputs(model: nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1)))


@pytest.fixture(scope='module')
def pair() -> tuple[nn.Module, nn.Module]:
    """A network and what its file gave back; tests that change them take copies."""
    trained, again = lively(Small()), Small()
    assert unpack(again, packed(trained)) == []
    return trained, again


def test_a_network_comes_back(pair):
    trained, again = pair
    assert torch.allclose(outputs(again), outputs(trained), rtol=0, atol=1e-5)
    assert not torch.allclose(outputs(Small()), outputs(trained), rtol=0, atol=0.1)


def test_a_network_whose_first_layer_is_binary_comes_back():
    """Its bits do not tell how many channels an image has."""
    trained, again = (nn.Sequential(ReBNNConv2d(8, 8, 3), nn.BatchNorm2d(8)) for _ in range(2))
    assert unpack(again, packed(lively(trained))) == []
    x = torch.randn(2, 8, 16, 16)
    with torch.no_grad():
        assert torch.allclose(again.eval()(x), trained.eval()(x), rtol=0, atol=1e-5)


def test_a_file_with_more_than_the_network_is_refused(pair):
    fewer = Small()
    fewer.last = nn.Identity()
    with pytest.raises(ValueError, match=r'^the file has a constant that the network has not, .*, so it is'):
        unpack(fewer, packed(pair[0]))


class WithStem(Small):
    """A stem that --fast joins, and a binary block whose shortcut has a convolution with a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 7, stride=2, padding=3, bias=False)
        self.beside = nn.Sequential(nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16))

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm1(self.first(x))), 3, 2, 1)
        x = self.act(self.norm2(self.conv(x)) + self.beside(x))
        return self.last(x.mean(dim=(2, 3)))


def test_one_with_folded_factors_and_biases_comes_back():
    trained, again = lively(WithStem()), WithStem()
    with torch.no_grad():
        trained.norm2.weight[::2] *= -1
    file = packed(trained, Options(fast=True))
    assert 'conv.add_bias' in {tensor.name for tensor in file.graph.initializer}
    assert unpack(again, file) == []
    assert torch.allclose(outputs(again), outputs(trained), rtol=0, atol=1e-5)


class TwoLevels(Small):
    """One predictor for two maps, each with a factor of its own, and one of a single channel, as ATSS has them."""

    def __init__(self) -> None:
        super().__init__()
        self.last, self.centre = nn.Conv2d(16, 4, 3, padding=1), nn.Conv2d(16, 1, 3, padding=1)
        self.scales = nn.ParameterList([torch.ones(()), torch.ones(())])

    def forward(self, x):
        x = F.relu(self.norm1(self.first(x)))
        x = self.act(self.norm2(self.conv(x)) + x)
        maps = [self.last(x) * self.scales[0], self.last(F.avg_pool2d(x, 2)) * self.scales[1], self.centre(x)]
        return torch.cat([level.mean(dim=(2, 3)) for level in maps], dim=1)


def test_a_predictor_with_a_factor_for_each_level_comes_back():
    trained, again = lively(TwoLevels()), TwoLevels()
    with torch.no_grad():
        trained.scales[0].fill_(0.7)
        trained.scales[1].fill_(1.6)
    assert unpack(again, packed(trained)) == []
    assert torch.allclose(outputs(again), outputs(trained), rtol=0, atol=1e-5)
    assert float(again.scales[1] / again.scales[0]) == pytest.approx(1.6 / 0.7)


@pytest.mark.slow
@pytest.mark.parametrize('method', OTHERS)
def test_one_of_another_method_comes_back(method):
    trained = lively(Small(method))
    again = Small(method)
    assert unpack(again, packed(trained)) == []
    assert torch.allclose(outputs(again), outputs(trained), rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize('method', WITHOUT_SCALE)
def test_one_whose_factor_cannot_be_set_is_refused(method):
    with pytest.raises(
        ValueError, match=f"^{method}Conv2d 'conv' cannot be unpacked: .* makes other signs or another"
    ):
        unpack(Small(method), packed(lively(Small(method))))


@pytest.mark.parametrize(
    'layer',
    [
        dict(type='BinaryConv2d', weight='AdaBinWeight', activation='AdaBinActivation'),
        dict(
            type='DoReFaConv2d',
            weight=dict(type='DoReFaWeight', bits=1),
            activation=dict(type='DoReFaActivation', bits=1),
        ),
    ],
    ids=['AdaBin', 'DoReFa'],
)
def test_a_method_of_two_free_values_is_refused(layer):
    model = Small()
    model.conv = MODELS.build(dict(**layer, in_channels=16, out_channels=16, kernel_size=3))
    with pytest.raises(
        ValueError, match=r"Conv2d 'conv' cannot be unpacked: \w+Weight and \w+Activation make no signs"
    ):
        unpack(model, onnx.ModelProto())


def test_a_network_of_one_image_size_comes_back():
    pytest.importorskip('mmpretrain')
    parts = dict(
        backbone=dict(type='rebnn_mm.BinaryVGGSmall', base_channels=8),
        neck=dict(type='FlattenNeck'),
        head=dict(type='LinearClsHead', num_classes=4, in_channels=32 * 4 * 4),
    )
    trained, again = tiny_classifier(**parts), tiny_classifier(**parts)
    for parameter in again.parameters():
        nn.init.normal_(parameter)
    unpack(again, onnx.load_from_string(export(trained, size=(32, 32)).data), (32, 32))
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.allclose(again.eval()(images), trained.eval()(images), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize('options', [Options(fuse=False), Options(half=True)], ids=['no-fuse', 'half'])
def test_a_file_of_another_form_comes_back(options):
    trained = lively(Small(bias=True))
    again = Small(bias=True)
    unpack(again, packed(trained, options))
    assert torch.allclose(outputs(again), outputs(trained), rtol=0, atol=1e-5)


class Wider(Small):
    """The block has more channels than its input, so its shortcut is a convolution with a norm."""

    def __init__(self) -> None:
        super().__init__()
        binary = dict(type='ReBNNConv2d', in_channels=16, out_channels=32, kernel_size=3, padding=1, bias=False)
        self.conv, self.norm2, self.act = MODELS.build(binary), nn.BatchNorm2d(32), RPReLU(32)
        self.shortcut = nn.Sequential(nn.Conv2d(16, 32, 1, bias=False), nn.BatchNorm2d(32))
        self.last = nn.Linear(32, 5)

    def forward(self, x):
        x = F.relu(self.norm1(self.first(x)))
        x = self.act(self.norm2(self.conv(x)) + self.shortcut(x))
        return self.last(x.mean(dim=(2, 3)))


@pytest.mark.parametrize('folding', [True, False])
def test_a_fast_file_comes_back_with_its_factors_folded_and_from_before_they_were(folding, monkeypatch):
    trained, again = lively(Wider()), Wider()
    with torch.no_grad():
        trained.norm2.weight[::3] *= -1
    if not folding:
        monkeypatch.setattr(passes, 'FoldFactors', passes.FoldNorms)  # which is there already
    file = packed(trained, Options(fast=True))
    monkeypatch.undo()
    assert any(name.endswith('.scale_mul') for node in file.graph.node for name in node.input) is folding
    assert unpack(again, file) == []
    assert torch.allclose(outputs(again), outputs(trained), rtol=0, atol=1e-5)


def test_latent_weights_stand_at_plus_or_minus_their_scale(pair):
    trained, again = pair
    codes, scale = trained.conv.weight_quantizer.codes(trained.conv.weight)
    assert torch.allclose(again.conv.weight, codes * scale.view(-1, 1, 1, 1))


class Centred(WeightQuantizer):
    """Signs of the weight less its mean, so that they do not come back from themselves."""

    values = Values('signs')

    def codes(self, weight):
        return (weight - weight.mean()).sign() + 0 * weight, weight.abs().amax(dim=(1, 2, 3)) * 2


def test_a_method_whose_signs_do_not_come_back_is_refused():
    conv = nn.Sequential(Small().conv)
    conv[0].weight_quantizer = Centred(conv[0].weight.shape)
    with (
        torch.no_grad(),
        pytest.raises(ValueError, match="^ReBNNConv2d 'conv' cannot be unpacked: of weights at plus or minus their"),
    ):
        _fill_layer(conv[0], 'conv', torch.ones(conv[0].weight.shape), {})


@pytest.mark.slow
def test_a_file_of_another_network_is_refused():
    other = lively(Small())
    other.last = nn.Linear(16, 6).requires_grad_(False)
    with pytest.raises(ValueError, match='of another network'):
        unpack(Small(), packed(other))


def test_training_starts_where_the_file_ends(pair):
    """With the statistics of the data a network in training computes what it does in evaluation."""
    model = deepcopy(pair[1]).eval()
    x = torch.randn(64, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        before = model(x)
        wrong = (deepcopy(model).train()(x) - before).abs().mean()
        assert fit_norms(model, lambda: [model(x)]) == 2
        after, training = model(x), deepcopy(model).train()(x)
    # signs next to zero may turn where a norm rounds otherwise
    assert (after - before).abs().mean() < 1e-3
    assert (training - before).abs().mean() < 0.02 < 0.1 < wrong


def test_a_norm_that_sees_only_empty_tensors_stays_as_it_is():
    norms = nn.ModuleList(nn.BatchNorm1d(2) for _ in range(2)).eval()
    before = deepcopy(norms[0].state_dict())
    x = torch.randn(9, 2, generator=torch.Generator().manual_seed(0))
    assert fit_norms(norms, lambda: [norms[0](x[:0]), norms[1](x[:0]), norms[1](x)]) == 1
    torch.testing.assert_close(norms[0].state_dict(), before, rtol=0, atol=0)
    torch.testing.assert_close(norms[1].running_mean, x.mean(0))


def test_an_unpacked_network_learns(pair):
    model = deepcopy(pair[1]).eval().requires_grad_(True)
    generator = torch.Generator().manual_seed(2)
    x, target = torch.randn(32, 3, 16, 16, generator=generator), torch.randint(5, (32,), generator=generator)
    fit_norms(model, lambda: [model(x)])
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        loss = F.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ('name', 'config', 'sure'),
    [
        ('blood-cells-tiny', 'one_bit/tiny_taught_bccd', 0.6),
        ('blood-cells', 'bccd/faster_rcnn_r18_rebnn_taught_bccd', 0.9),
    ],
)
def test_the_zoos_detector_comes_back(name, config, sure):
    """On its photograph PyTorch finds what the file finds, but for signs that round otherwise."""
    pytest.importorskip('mmdet')
    from mmengine.hub import get_config
    from mmengine.registry import init_default_scope

    from rebnn_mm.deploy import load
    from rebnn_mm.deploy.image import read_image
    from rebnn_mm.export.examples import prepare_example
    from rebnn_mm.export.preprocess import read_preprocessing
    from rebnn_mm.export.tasks import task_of, torch_outputs

    cfg = get_config(f'rebnn_mm::{config}.py')
    init_default_scope('mmdet')
    model = MODELS.build(cfg.model)
    assert unpack(model, onnx.load(zoo_path(name))) == []
    photo = read_image('zoo:BloodImage_00021.jpg')
    file = load(f'zoo:{name}')
    boxes, scores, labels = torch_outputs(model, task_of(model), prepare_example(read_preprocessing(cfg)[0], photo))
    theirs = file(photo)
    counts = [np.bincount(labels[scores > 0.5]), np.bincount(theirs.labels[theirs.scores > 0.5])]
    assert abs(counts[0] - counts[1]).sum() <= 1, 'more than one score has crossed 0.5'
    ours = 2 * boxes[scores > sure]  # the photograph is twice as large as what the network sees
    nearest = np.abs(ours[:, None] - theirs.boxes).max(axis=2).min(axis=1)
    assert len(ours) >= 9 and nearest.max() < 12


@pytest.mark.parametrize(
    ('kind', 'inputs', 'attributes', 'words'),
    [
        ('ConstantOfShape', [np.array([1 << 33])], {}, 'ConstantOfShape nodes would make more than 268435456 values'),
        ('ConstantOfShape', [np.array([2**62] * 40)], {}, 'ConstantOfShape nodes would make more than 268435456 val'),
        (
            'DequantizeLinear',
            [np.zeros((2, 2), np.int8), np.float32([1, 1]), np.int8([0, 0])],
            {'axis': 5},
            "the constant 'made' cannot be computed: ",
        ),
    ],
)
def test_constants_of_a_strange_file(kind, inputs, attributes, words):
    tensors = [numpy_helper.from_array(np.asarray(value), f'input{i}') for i, value in enumerate(inputs)]
    made = helper.make_node(kind, [tensor.name for tensor in tensors], ['made'], **attributes)
    graph = helper.make_graph([made, helper.make_node('Neg', ['made'], ['y'])], 'g', [], [], tensors)
    with pytest.raises(ValueError, match=words):
        unpack(nn.Conv2d(3, 4, 3), helper.make_model(graph))
