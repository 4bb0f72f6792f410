"""Which layers become int8, what they are calibrated to, and that nothing else changes."""

import json

import cv2
import numpy as np
import onnx
import pytest
import torch
from torch import nn

pytest.importorskip('mmpretrain')

from rebnn_mm.deploy import load
from rebnn_mm.deploy.session import library_available, open_session
from rebnn_mm.export import apply_passes
from rebnn_mm.export.examples import Image, feeds_of, noise, prepare_example
from rebnn_mm.export.exporter import export, write
from rebnn_mm.export.options import Options
from rebnn_mm.export.passes import QuantizeInt8, int8
from rebnn_mm.export.passes.int8 import choose, measure_ranges, plan_int8, values_of, watch_values
from rebnn_mm.export.verify import with_signs
from tests.export.conftest import PREPROCESS, tiny_classifier, tiny_parts
from tests.export.graphs import parsed, run

BLOCK = 'scale, scale, scale, {residual}, scale, scale, scale, scale'


def block(name: str, x: str, residual: str, outputs: str, packed: bool = True) -> str:
    kind, shift = ('PackedBinaryBlock', '') if packed else ('BinaryBlock', 'scale, ')
    inputs = f'{x}, bits, {shift}{BLOCK.format(residual=residual)}'
    return f'[{name}] {outputs} = rebnn.{kind} <channels = 8, layout = "NHWC"> ({inputs})'


SHAPES = {'stem': (8, 3, 1, 1), 'short1': (8, 8), 'short2': (8, 8), 'head': (8, 8)}

NETWORK = f"""
agraph (float[1, 3, H, W] image) => (float[1, H, W, 8] y) {{
    x = Conv (image, stem_weight)
    last = Transpose <perm = [0, 2, 3, 1]> (x)
    r1 = MatMul (last, short1_weight)
    {block('first', 'last', 'r1', 'a, a_bits', packed=False)}
    r2 = MatMul (a, short2_weight)
    {block('second', 'a_bits', 'r2', 'b')}
    h = MatMul (b, head_weight)
    y = Add (h, b)
}}
"""


def filled(text: str) -> onnx.ModelProto:
    """The graph with its constants; a layer's weight is called as the exporter calls it."""
    model = parsed(text)
    rng = np.random.default_rng(0)
    constants: dict[str, np.ndarray] = {
        f'{layer}.weight': rng.normal(0, 0.3, shape).astype(np.float32)
        for layer, shape in SHAPES.items()
        if f'{layer}_weight' in text
    }
    constants |= {'bits': rng.integers(0, 256, (8, 1, 1, 1), np.uint8), 'scale': np.ones(8, np.float32)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in constants.items())
    for node in model.graph.node:
        node.input[:] = [name.replace('_weight', '.weight') for name in node.input]
        if node.op_type.endswith('Block') and len(node.output) == 1:
            node.output.append('')
    return model


def pictures(count: int = 3) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{'image': rng.normal(size=(1, 3, 6, 5)).astype(np.float32)} for _ in range(count)]


def chosen(model: onnx.ModelProto, tier: str) -> dict[str, str]:
    return {choice.layer: choice.because for choice in choose(model, tier) if choice.int8}


def test_only_products_whose_values_become_no_sign():
    model = filled(NETWORK)
    # short2 ends in a residual that only the head reads; short1 in one whose block gives bits
    assert chosen(model, 'heads').keys() == {'short2', 'head'}
    reasons = {choice.layer: choice.because for choice in choose(model, 'heads')}
    assert reasons['short1'] == 'its values become signs at second'
    assert reasons['stem'] == 'first layer (3 input channels)'
    assert chosen(model, 'all').keys() == {'short1', 'short2', 'head'}
    assert chosen(model, 'stem').keys() == {'stem', 'short1', 'short2', 'head'}


@pytest.mark.parametrize(('flags', 'bits'), [('avx2 avx_vnni', 8), ('avx2 avx512f', 7)])
def test_weights_have_seven_bits_where_sums_of_eight_would_saturate(monkeypatch, flags, bits):
    monkeypatch.setattr(int8.platform, 'machine', lambda: 'x86_64')
    monkeypatch.setattr(int8, 'processor_flags', lambda: set(flags.split()))
    assert plan_int8(filled(NETWORK), 'heads', pictures()).weight_bits == bits
    monkeypatch.setattr(int8.platform, 'machine', lambda: 'aarch64')
    assert plan_int8(filled(NETWORK), 'heads', pictures()).weight_bits == 8
    assert plan_int8(filled(NETWORK), 'heads', pictures(), reduced=True).weight_bits == 7


def regions() -> onnx.ModelProto:
    """Regions at boxes that a layer predicts, of maps that another one gives, before a sign."""
    helper, rng = onnx.helper, np.random.default_rng(0)
    weights = {
        'boxes.weight': rng.normal(size=(4, 4)).astype(np.float32),
        'seen.weight': rng.normal(size=(8, 8, 1, 1)).astype(np.float32),
        'bits': rng.integers(0, 256, (8, 1, 1, 1), np.uint8),
        'vector': np.ones(8, np.float32),
        'index': np.zeros(3, np.int64),
    }
    nodes = [
        helper.make_node('MatMul', ['at', 'boxes.weight'], ['boxes']),
        helper.make_node('Conv', ['squashed', 'seen.weight'], ['seen']),
        helper.make_node('RoiAlign', ['seen', 'boxes', 'index'], ['cut']),
        helper.make_node('BinaryConv', ['cut', 'bits', *['vector'] * 3], ['y'], 'layer', domain='rebnn', channels=8),
    ]
    nodes.insert(0, helper.make_node('Tanh', ['at'], ['moved']))
    nodes.insert(0, helper.make_node('Tanh', ['image'], ['squashed']))
    nodes[2].input[0] = 'moved'
    inputs = [
        helper.make_tensor_value_info('image', onnx.TensorProto.FLOAT, [1, 8, None, None]),
        helper.make_tensor_value_info('at', onnx.TensorProto.FLOAT, [3, 4]),
    ]
    output = helper.make_tensor_value_info('y', onnx.TensorProto.FLOAT, None)
    constants = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    return helper.make_model(helper.make_graph(nodes, 'regions', inputs, [output], constants))


def test_boxes_end_a_path_and_the_map_under_them_does_not():
    reasons = {choice.layer: choice for choice in choose(regions(), 'heads')}
    assert reasons['boxes'].int8
    assert reasons['seen'].because == 'its values become signs at layer'


def test_one_use_in_front_of_a_sign_keeps_a_shared_layer_real():
    model = filled(NETWORK.replace('h = MatMul (b, head_weight)', 'h = MatMul (b, short1_weight)'))
    assert chosen(model, 'heads').keys() == {'short2'}
    found = next(choice for choice in choose(model, 'all') if choice.layer == 'short1')
    assert found.outputs == ('r1', 'h')


def test_ranges_are_the_extremes_over_all_images():
    model, feeds = filled(NETWORK), pictures()
    names = ['last', 'h']
    found = measure_ranges(open_session(watch_values(model, names), library=False), names, feeds)
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = open_session(copy.SerializeToString(), library=False)
    values = [session.run(names, feed) for feed in feeds]
    for name, arrays in zip(names, zip(*values, strict=True), strict=True):
        assert found[name] == pytest.approx((np.min(arrays), np.max(arrays)), abs=1e-6)


def test_weights_are_rounded_by_channel_and_other_readers_see_no_rounding():
    model = filled(NETWORK)
    plan = plan_int8(model, 'heads', pictures())._replace(reduced=False)  # whatever this processor needs
    result = apply_passes(model, QuantizeInt8(plan))
    onnx.checker.check_model(result, full_check=True)
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in result.graph.initializer}
    before = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for layer in ('short2', 'head'):
        codes, scales = stored[f'{layer}.weight_quantized'], stored[f'{layer}.weight_scale']
        weight = before[f'{layer}.weight']
        np.testing.assert_allclose(scales, np.abs(weight).max(0) / 127, rtol=1e-6)
        assert np.abs(codes * scales - weight).max() <= scales.max() / 2 * (1 + 1e-5)
        assert f'{layer}.weight' not in stored
    assert stored['stem.weight'].dtype == stored['short1.weight'].dtype == np.float32
    # b is rounded for the head, not for the addition after it, and a not for the block that it enters
    readers = {node.op_type: node.input for node in result.graph.node if node.output[0] == 'y'}
    assert readers['Add'][1] == 'b'
    assert not any(name.endswith('.int8') for node in result.graph.node for name in node.input)
    # not optimised, which is in real numbers: 8-bit products saturate on some processors
    first, second = (run(graph, pictures(1)[0], optimised=False)[0] for graph in (model, result))
    assert 0 < np.abs(first - second).max() < 0.01 * np.abs(first).max()


def test_seven_bits_where_products_are_added_in_sixteen():
    model = filled(NETWORK)
    result = apply_passes(model, QuantizeInt8(plan_int8(model, 'heads', pictures(), reduced=True)))
    codes = [onnx.numpy_helper.to_array(t) for t in result.graph.initializer if t.data_type == onnx.TensorProto.INT8]
    assert max(np.abs(array.astype(int)).max() for array in codes) == 64


@pytest.fixture(scope='module')
def residual():
    """A classifier of two stages: a stem, a full-precision shortcut before signs, and a linear layer."""
    backbone = dict(tiny_parts()['backbone'], num_stages=2, strides=(1, 2), dilations=(1, 1), out_indices=(1,))
    return tiny_classifier(backbone=backbone, head=dict(type='LinearClsHead', num_classes=5, in_channels=16))


def exported_with(model, **options):
    given = dict(preprocess=PREPROCESS, size=(16, 12), classes=list('abcde'))
    return export(model, Options(**options), calibration=noise(PREPROCESS, (16, 12)), **given)


@pytest.fixture(scope='module')
def files(residual):
    """By tier; that of ``all`` in half precision too, in which nothing here is large enough to be stored."""
    return {tier: exported_with(residual, int8=tier, half=tier == 'all') for tier in ('', *int8.TIERS)}


def signs(data: bytes, library: bool) -> dict[str, np.ndarray]:
    """What goes into the binary layers, and the scores, on an image that was not calibrated on."""
    model = with_signs(onnx.load_from_string(data))
    session = open_session(model.SerializeToString(), library=library)
    feeds = feeds_of(model, Image(np.random.default_rng(9).normal(size=(1, 3, 16, 12)).astype(np.float32), (16, 12)))
    return dict(zip([value.name for value in session.get_outputs()], session.run(None, feeds), strict=True))


def test_heads_leave_every_sign_as_it_was(files):
    exact, heads, stem = (signs(files[tier].data, library=False) for tier in ('', 'heads', 'stem'))
    maps = exact.keys() - {'scores'}
    assert len(maps) >= 8
    assert all(np.array_equal(exact[name], heads[name]) for name in maps)
    assert not all(np.array_equal(exact[name], stem[name]) for name in maps)
    assert 0 < np.abs(exact['scores'] - heads['scores']).max() < 0.02


@pytest.mark.skipif(not library_available(), reason='the library with our kernels is not built')
@pytest.mark.parametrize('tier', int8.TIERS)
def test_library_and_functions_give_the_same_bits(files, tier):
    ours, theirs = (signs(files[tier].data, library=library)['scores'] for library in (True, False))
    assert np.array_equal(ours, theirs)


def test_file_and_report_say_what_became_int8(files, tmp_path):
    for tier, layers in (
        ('heads', ['head.fc']),
        ('all', ['backbone.layer2.0.downsample.0', 'head.fc']),
        ('stem', ['backbone.conv1', 'backbone.layer2.0.downsample.0', 'head.fc']),
    ):
        found = files[tier]
        write(found.data, tmp_path / 'model.onnx')
        entries = load(tmp_path / 'model.onnx', use_library=False).session.get_modelmeta().custom_metadata_map
        stated = json.loads(entries['rebnn.int8'])
        assert stated == {'layers': layers, 'weight_bits': found.int8.weight_bits}
        assert [choice.layer for choice in found.int8.choices if choice.int8] == layers
        rows = {layer.name: layer for layer in found.report.layers}
        assert [name for name, row in rows.items() if row.bits == '8/8'] == layers
        assert rows['head.fc'].size == 5 * 16
        assert found.int8.before == files[''].data
        assert found.int8.change.images == 2 and 0 < found.int8.change.difference < 0.1
    assert files[''].int8 is None and 'rebnn.int8' not in files[''].data.decode('latin1')


@pytest.mark.parametrize(
    ('feeds', 'words'),
    [([], 'there is no image to calibrate'), (pictures(1), 'the value .* is empty or not finite on the 1 images')],
)
def test_what_cannot_be_calibrated_is_said(feeds, words):
    for feed in feeds:
        feed['image'][:] = np.nan
    with pytest.raises(ValueError, match=words):
        plan_int8(filled(NETWORK), 'heads', feeds)


def photos(count: int) -> list[Image]:
    """Smooth images, as photographs are."""
    rng = np.random.default_rng(2)
    coarse = (rng.integers(0, 256, (4, 3, 3), np.uint8) for _ in range(count))
    return [prepare_example(PREPROCESS, cv2.resize(pixels, (12, 16))) for pixels in coarse]


BLACK = prepare_example(PREPROCESS, np.zeros((16, 12, 3), np.uint8))


@pytest.mark.parametrize(
    ('images', 'words'),
    [
        (photos(1), 'int8 was calibrated on 1 image only: values of other images may lie outside'),
        ([BLACK] * 12, 'int8 was calibrated on 12 images, 12 of one colour: '),
        (noise(PREPROCESS, (16, 12)), 'int8 was calibrated on 2 images only, 2 of noise: '),
        (photos(12), ''),
    ],
)
def test_how_little_the_calibration_saw(residual, images, words):
    found = export(
        residual, Options(int8='heads'), preprocess=PREPROCESS, size=(16, 12), examples=photos(3), calibration=images
    )
    assert found.int8.little.startswith(words) and bool(found.int8.little) == bool(words)
    assert found.int8.change.images == len(images) and found.int8.compared.images == 3


def test_a_useless_file_is_refused():
    """On black images every value after the first layer is 0, and so is its range."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.ReLU(), nn.Conv2d(8, 4, 1, bias=False))
    plain = {'channels': 'rgb'}
    black, colourful = (
        prepare_example(plain, pixels)
        for pixels in (
            np.zeros((16, 12, 3), np.uint8),
            np.random.default_rng(0).integers(0, 256, (16, 12, 3), np.uint8),
        )
    )
    about = dict(preprocess=plain, size=(16, 12), examples=[colourful])
    with pytest.raises(
        ValueError, match=r'^the file with int8 is useless: outputs differ by \d+% of the largest\. int8 was'
    ):
        export(net, Options(int8='heads'), calibration=[black], **about)
    assert export(net, Options(int8='heads'), calibration=[colourful], **about).int8.compared.relative < 0.05
    unwatched = export(net, Options(int8='heads'), calibration=[black], watch=lambda examples: (), **about)
    assert unwatched.int8.compared.relative > 0.5  # as a benchmark of random weights asks


def test_seven_bits_without_int8_are_refused(residual):
    with pytest.raises(ValueError, match='reduce_range is an option of the layers that int8 makes'):
        export(residual, Options(reduce_range=True))


def test_nothing_to_quantize_is_said():
    text = NETWORK.replace('h = MatMul (b, head_weight)', 'h = Tanh (b)').replace(
        'r2 = MatMul (a, short2_weight)', 'r2 = Tanh (a)'
    )
    with pytest.raises(ValueError, match=r'finds no layer to quantize \(stem: first layer .*The tier "all" takes'):
        plan_int8(filled(text), 'heads', pictures())
    assert plan_int8(filled(text), 'all', pictures()).layers == ['short1']


def test_the_next_wider_choice_is_named_where_nothing_is_found():
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    with pytest.raises(ValueError, match='The tier "stem" takes in more'):
        exported_with(net, int8='all')


class Product(nn.Module):
    """Mean channels of a convolution, or its pixels one by one, through one more product."""

    def __init__(self, product, pixels=False):
        super().__init__()
        self.conv, self.pixels, self.product = nn.Conv2d(3, 8, 3), pixels, product

    def forward(self, x):
        x = torch.tanh(self.conv(x))
        return self.product(x.permute(0, 2, 3, 1) if self.pixels else x)


class Weighted(nn.Module):
    """A function of a map's mean channels and a weight that does not call itself so."""

    def __init__(self, function, *shape):
        super().__init__()
        self.function, self.matrix = function, nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return self.function(x.mean((2, 3)), self.matrix)


@pytest.mark.parametrize(
    'net', [Product(nn.Linear(8, 5), pixels=True), Product(Weighted(torch.matmul, 8, 5))], ids=['linear', 'matrix']
)
def test_a_weight_of_another_name_becomes_int8(net):
    found = exported_with_nothing_named(net)
    assert [choice.int8 for choice in found.int8.choices] == [False, True]
    assert found.int8.change.relative < 0.05


@pytest.mark.parametrize(
    'product',
    [
        nn.ConvTranspose2d(8, 6, 3, 2, groups=2),
        Weighted(lambda x, matrix: x[:, None, None] @ matrix, 3, 8, 5),
        Weighted(lambda x, matrix: torch.addmm(matrix[0], x, matrix, alpha=2.0, beta=3.0), 8, 5),
    ],
    ids=['groups', 'matrices', 'factors'],
)
def test_what_the_quantizer_does_not_take_keeps_full_precision(product):
    found = exported_with_nothing_named(nn.Sequential(Product(product), nn.Flatten(), nn.LazyLinear(4)))
    reasons = [choice.because for choice in found.int8.choices]
    assert reasons[1:] == ['ONNX Runtime does not compute it in 8 bits', 'its values never become a sign']


def exported_with_nothing_named(net):
    torch.manual_seed(0)
    images = torch.zeros(1, 3, 16, 12)
    net.eval()(images)  # which gives a lazy layer its size
    return export(net, Options(int8='all'), size=(16, 12), calibration=noise({'channels': 'rgb'}, (16, 12)))


def test_values_of_leaves_constants_out():
    model = filled(NETWORK)
    assert values_of(model, [node for node in model.graph.node if node.op_type == 'MatMul'][:1]) == ['last', 'r1']
