import numpy as np
import onnx
import pytest
from mmengine.registry import DefaultScope
from onnx import helper, numpy_helper

from rebnn_mm.deploy.session import open_session
from rebnn_mm.export import apply_passes, pack
from rebnn_mm.export import verify as module
from rebnn_mm.export.examples import Image
from rebnn_mm.export.exporter import build_unfused_graph, noise
from rebnn_mm.export.passes import ChannelsLast, FuseBlocks
from rebnn_mm.export.tasks import Task, graph_of, random_texts, torch_outputs
from rebnn_mm.export.verify import FLIPPED, Flips, region_flips, verify
from tests.export.conftest import PREPROCESS, tiny_classifier

TASK = Task('classification')


@pytest.fixture
def model(exported):
    model = onnx.ModelProto.FromString(exported.data)
    return model


@pytest.fixture(scope='module')
def images():
    return noise(PREPROCESS, (16, 12))


def changed(model, name, change):
    (tensor,) = (tensor for tensor in model.graph.initializer if tensor.name == name)
    tensor.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(tensor).copy()), name))
    return model


def test_weights_that_are_wrong_show_at_the_layer_behind(model, classifier, images):
    wrong = changed(model, 'backbone.layer1.0.conv2.bits', lambda bits: bits ^ 1)
    with pytest.raises(
        ValueError, match=r'differs from PyTorch first at backbone.layer1.1.conv1: \d+ of the 1536 signs'
    ):
        verify(wrong, classifier, TASK, images)


def test_a_real_layer_that_is_wrong_is_told_from_a_binary_one(model, classifier, images):
    wrong = changed(model, 'head.fc.bias', lambda bias: bias + np.arange(5, dtype=np.float32))
    with pytest.raises(ValueError, match='although every sign is the same: a full-precision operator'):
        verify(wrong, classifier, TASK, images)


def test_a_few_signs_next_to_zero_are_counted_and_no_error(model, classifier, images, monkeypatch):
    monkeypatch.setattr(module, 'DIFFERENCE', 1.0)
    slightly = changed(model, 'backbone.layer1.0.conv1.scale', lambda scale: scale * np.float32(1.01))
    found = verify(slightly, classifier, TASK, images)
    first = next(flips for flips in found.flips.values() if flips.flipped)
    assert 0 < first.flipped <= module.FEW * len(images)
    assert found.flipped.flipped == sum(flips.flipped for flips in found.flips.values())


def test_kernels_that_give_other_numbers_than_the_functions_are_refused(model, classifier, images, monkeypatch):
    """As if the library were wrong: its session is one of another graph."""
    other = changed(onnx.ModelProto.FromString(model.SerializeToString()), 'head.fc.bias', np.zeros_like)
    opened = module.open_session

    def wrong_with_the_library(data, *, library, **options):
        return opened(other.SerializeToString() if library else data, library=False, **options)

    monkeypatch.setattr(module, 'open_session', wrong_with_the_library)
    monkeypatch.setattr(module, 'library_available', lambda: True)
    with pytest.raises(ValueError, match='of the largest with the library and without it'):
        verify(model, classifier, TASK, images)


def test_an_output_of_another_shape(model, classifier, images):
    wrong = changed(model, 'head.fc.weight', lambda weight: weight[:4])
    changed(wrong, 'head.fc.bias', lambda bias: bias[:4])
    model.graph.output[0].ClearField('type')
    model.graph.output[0].type.tensor_type.elem_type = 1
    for dim in ('n', 'classes'):
        model.graph.output[0].type.tensor_type.shape.dim.add().dim_param = dim
    with pytest.raises(ValueError, match=r'an output has the shape \(1, 4\), but in PyTorch \(1, 5\)'):
        verify(wrong, classifier, TASK, images)


def test_a_graph_that_is_not_valid(model, classifier, images):
    model.graph.node[-1].input[0] = 'nowhere'
    with pytest.raises(ValueError, match='^the exported graph is not valid: .*nowhere'):
        verify(model, classifier, TASK, images)


def test_values_that_are_not_finite(model, classifier, images):
    wrong = changed(model, 'head.fc.bias', lambda bias: bias * np.float32('nan'))
    with pytest.raises(ValueError, match='an output is not finite where it is in PyTorch'):
        verify(wrong, classifier, TASK, images)


@pytest.fixture(scope='module')
def rounded(classifier, images):
    """The graph of the classifier, in which on each image one sign differs, as if a value next to zero were rounded.

    It is a sign of the second binary layer: of another channel for each image, the value that is nearest to zero.
    """
    graph, _ = build_unfused_graph(classifier, TASK, (16, 12))
    layer = classifier.get_submodule('backbone.layer1.0.conv2')
    shift = layer.activation_quantizer.shift.detach().numpy().copy()
    inputs = []
    with layer.register_forward_pre_hook(lambda module, args: inputs.append(args[0].numpy())):
        for image in images:
            torch_outputs(classifier, TASK, image)
    for channel, x in enumerate(inputs):
        shift[channel] -= next_to_zero(x[0, channel] + shift[channel])
    return changed(graph, 'backbone.layer1.0.conv2.shift', lambda _: shift)


def next_to_zero(values):
    """A little more than the least value that is not negative: taken off, it turns one sign."""
    return values[values >= 0].min() * np.float32(1.001)


def copy_of(model):
    return onnx.ModelProto.FromString(model.SerializeToString())


def test_behind_a_sign_that_was_rounded_differently_all_else_is_compared(rounded, classifier, images):
    found = verify(rounded, classifier, TASK, images)
    assert found.flips['backbone.layer1.0.conv2'].flipped == found.complete == found.images == len(images)


@pytest.mark.parametrize(
    ('name', 'change', 'words'),
    [
        ('head.fc.weight', lambda weight: weight[::-1].copy(), 'although every sign is the same: a full-precision'),
        ('backbone.layer1.0.conv2.bits', lambda bits: ~bits, 'at backbone.layer1.1.conv1, although all layers before'),
        (
            'backbone.layer1.1.conv1.bits',
            lambda bits: bits ^ 1,
            'at backbone.layer1.1.conv2, although all layers befo',
        ),
    ],
)
def test_what_is_wrong_behind_such_a_sign_is_refused(rounded, classifier, images, name, change, words):
    with pytest.raises(ValueError, match=words):
        verify(changed(copy_of(rounded), name, change), classifier, TASK, images)


def test_a_file_that_nowhere_can_be_compared_to_the_end_is_refused(rounded, classifier, images):
    """The operator of the last layer bears another name, so that PyTorch cannot be given its signs."""
    unknown = copy_of(rounded)
    (node,) = (node for node in unknown.graph.node if node.name == 'backbone.layer1.1.conv2')
    node.name = 'another'
    with pytest.raises(ValueError, match='on none of the examples could the file be compared with PyTorch to the end'):
        verify(unknown, classifier, TASK, images)


@pytest.fixture(scope='module')
def flat():
    """A classifier that gives 1000 equal probabilities, and its graph."""
    pytest.importorskip('mmpretrain')
    model = tiny_classifier(head=dict(type='LinearClsHead', num_classes=1000, in_channels=8))
    graph, _ = build_unfused_graph(model, TASK, (16, 12))
    model.head.fc.weight.data.zero_()
    return model, changed(graph, 'head.fc.weight', np.zeros_like)


@pytest.fixture
def scored(flat, images):
    """``scored({3: 0.1}, {4: 0.1})``: what a file is found to be if it has the second bias in place of the first."""
    model, graph = flat

    def run(trained, exported):
        for index in range(1000):
            model.head.fc.bias.data[index] = trained.get(index, 0.0)
        copy = onnx.ModelProto()
        copy.CopyFrom(graph)
        bias = np.array([exported.get(index, 0.0) for index in range(1000)], np.float32)
        return verify(changed(copy, 'head.fc.bias', lambda _: bias), model, TASK, images)

    return run


def test_small_outputs_are_compared_with_the_largest_of_them(scored):
    assert scored({3: 0.1}, {3: 0.1}).top1 == 2
    for wrong in (1.8, 0.2):
        with pytest.raises(ValueError, match=r'by 0\.8 of the largest, although every sign is the same'):
            scored({}, {3: np.log(wrong)})


def test_the_best_class_is_pytorchs_or_ties_with_it(scored):
    assert scored({3: 8e-4}, {4: 1e-4}).top1 == 0
    with pytest.raises(ValueError, match='gives another best class than PyTorch, 4 in place of 3, although every'):
        scored({3: 1.6e-3}, {3: 8e-4, 4: 9e-4})


@pytest.fixture(scope='module')
def detector():
    """A full-precision detector whose first two classes are one, its graph, and an image."""
    pytest.importorskip('mmdet')
    from .detection.detectors import DELTAS, RETINA_ANCHORS, image, one_stage

    with DefaultScope.overwrite_default_scope('mmdet'):
        model = one_stage(dict(type='RetinaHead', anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS), nms_pre=10_000)
        for module in [*model.modules()]:
            if hasattr(module, 'stay_real'):
                module.stay_real('to have no sign')
        scores = model.bbox_head.retina_cls
        for values in (scores.weight.data, scores.bias.data):
            values.mul_(0.01)  # far from the saturation of a sigmoid, where scores are equal
            values[1::5] = values[::5]
        return model, graph_of(pack(model).model, Task('detection'), None), Image(image(96, 128).numpy(), (90, 120))


def with_outputs(graph, kind, name, *values):
    """The graph with an operator after an output."""
    copy = onnx.ModelProto()
    copy.CopyFrom(graph)
    for node in copy.graph.node:
        node.output[:] = [f'{name}_before' if value == name else value for value in node.output]
    constants = [numpy_helper.from_array(value, f'value_{i}') for i, value in enumerate(values)]
    copy.graph.initializer.extend(constants)
    names = [constant.name for constant in constants]
    copy.graph.node.append(helper.make_node(kind, [f'{name}_before', *names], [name]))
    return copy


def test_the_same_detections_pass_and_equal_scores_have_no_order(detector):
    model, graph, image = detector
    (found,) = verify(graph, model, Task('detection'), [image]).detections
    assert found.same
    _, scores, labels = torch_outputs(model, Task('detection'), image)
    assert len(scores) > len(np.unique(scores)) > 5 and {0, 1} <= set(labels.tolist())


@pytest.mark.parametrize(
    ('kind', 'name', 'value', 'words'),
    [
        ('Add', 'boxes', np.float32(500), r'(\d+) of \1 are missing and \1 of \1 are new'),
        ('Mul', 'boxes', np.float32(1.005), r'although every sign is the same: on one image'),
        ('Mul', 'scores', np.float32(0.999), r'0 of (\d+) are missing and 0 of \1 are new.* their scores differ by'),
        ('Add', 'labels', np.int64(1), r'[1-9]\d* of \d+ are missing'),
    ],
)
def test_every_detection_has_its_partner_where_no_sign_differs(detector, kind, name, value, words):
    model, graph, image = detector
    with pytest.raises(ValueError, match=f'^the exported file gives other detections than PyTorch, .*{words}'):
        verify(with_outputs(graph, kind, name, np.array(value)), model, Task('detection'), [image])


@pytest.fixture(scope='module')
def one_bit():
    """A narrow detector of configs/one_bit, a function that writes its graph, and an image.

    The network is traced once, because what is wrong below is what is written after it.
    """
    pytest.importorskip('mmdet')
    from rebnn_mm.export.detection import whole_graph

    from .detection.detectors import image, narrow_one_bit, of_config

    with DefaultScope.overwrite_default_scope('mmdet'):
        model = of_config('one_bit/nano_bccd', narrow_one_bit)
    for layer in (*model.bbox_head.rtm_cls, *model.bbox_head.rtm_reg):
        layer.weight.data.mul_(0.1)  # far from the saturation of a sigmoid
    packed, trace, traced = pack(model).model, whole_graph.trace, []

    def trace_once(*args):
        if not traced:
            traced.append(trace(*args))
        return copy_of(traced[0])

    def write():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(whole_graph, 'trace', trace_once)
            return graph_of(packed, Task('detection'))

    return model, write, Image(image(96, 128).numpy(), (90, 120))


def test_a_graph_of_a_detector_made_for_one_bit_passes(one_bit):
    model, write, example = one_bit
    found = verify(write(), model, Task('detection'), [example])
    assert found.detections[0].same and found.boxes == 200 and found.complete == 1


def exchange_levels(original):
    return lambda g, maps, generator, level, places: original(
        g, maps, generator, {0: 1, 1: 0}.get(level, level), places
    )


def enlarge(original):
    return lambda g, coder, points, sides, limit: original(g, coder, points, g('Mul', sides, 1.1), limit)


def exchange_classes(original):
    def write(g, *args):
        found = original(g, *args)
        return found._replace(labels=g('Sub', 2, found.labels))

    return write


@pytest.mark.parametrize(
    ('part', 'change'),
    [('priors', exchange_levels), ('decode', enlarge), ('one_stage_detections', exchange_classes)],
)
def test_a_detector_made_for_one_bit_whose_boxes_are_written_wrong_is_refused(one_bit, monkeypatch, part, change):
    from rebnn_mm.export.detection import heads

    model, write, example = one_bit
    monkeypatch.setattr(heads, part, change(getattr(heads, part)))
    with pytest.raises(ValueError, match='gives other detections than PyTorch, although every sign is the same'):
        verify(write(), model, Task('detection'), [example])


@pytest.mark.parametrize(
    ('kind', 'other', 'words'),
    [
        ('Relu', 'LeakyRelu', 'differs from PyTorch first at backbone.layer1.0'),
        ('PRelu', 'Add', 'differs from PyTorch first at backbone.layer2.0'),
        ('Exp', 'Relu', 'gives other detections than PyTorch'),
        ('Sigmoid', 'HardSigmoid', 'gives other detections than PyTorch'),
    ],
)
def test_a_detector_made_for_one_bit_with_a_wrong_activation_is_refused(one_bit, kind, other, words):
    model, write, example = one_bit
    wrong = write()
    for node in wrong.graph.node:
        node.op_type = other if node.op_type == kind else node.op_type
    with pytest.raises(ValueError, match=words):
        verify(wrong, model, Task('detection'), [example])


def regions(count, generator):
    return generator.random((count, 4, 7, 7)) < 0.5


def test_regions_in_another_order_are_the_same_ones():
    expected = regions(50, np.random.default_rng(0))
    found = expected[np.random.default_rng(1).permutation(50)]
    assert region_flips(found, expected) == Flips(0, expected.size)
    found[3, 0, 0, 0] ^= True
    assert region_flips(found, expected) == Flips(1, expected.size)


def test_a_few_other_regions_are_near_ties_and_many_are_not():
    generator = np.random.default_rng(0)
    expected = regions(50, generator)
    few, many = expected.copy(), expected.copy()
    few[:10], many[:11] = regions(10, generator), regions(11, generator)
    assert region_flips(few, expected) == Flips(1, 40 * 196)  # so that other detections are explained
    assert region_flips(many, expected).flipped > FLIPPED * expected.size
    assert region_flips(expected[:0], expected) == Flips(expected.size, expected.size)


@pytest.fixture(scope='module')
def two_stages():
    """A detector with regions of four levels, its graph, in which one sign of the backbone differs, and an image."""
    pytest.importorskip('mmdet')
    from .detection.detectors import image, narrow_fpn, of_config

    with DefaultScope.overwrite_default_scope('mmdet'):
        model, example = (
            of_config('coco/faster_rcnn_r18_fpn_rebnn_coco', narrow_fpn),
            Image(image(192, 224).numpy(), (190, 217)),
        )
        graph = graph_of(pack(model).model, Task('detection'), None)
        name, inputs = 'backbone.layer1.0.conv2', []
        with model.get_submodule(name).register_forward_pre_hook(lambda module, args: inputs.append(args[0].numpy())):
            torch_outputs(model, Task('detection'), example)
    changed(
        graph,
        f'{name}.shift',
        lambda shift: shift - np.eye(8)[0].astype(np.float32) * next_to_zero(inputs[0][0, 0] + shift[0]),
    )
    return model, graph, example


@pytest.mark.parametrize('last', [False, True], ids=['channels first', 'channels last'])
def test_the_second_stage_is_compared_on_the_regions_of_the_file(two_stages, last):
    model, graph, example = two_stages
    if last:
        graph = apply_passes(graph, FuseBlocks(), ChannelsLast())
    found = verify(graph, model, Task('detection'), [example])
    assert found.flips['backbone.layer1.0.conv2'].flipped == found.complete == 1
    assert not found.detections[0].same  # the regions are others


@pytest.mark.parametrize(
    ('name', 'words'),
    [
        ('rpn_head.rpn_cls.weight', r'proposes other regions than PyTorch, .*: \d+ of 60 are missing'),
        ('neck.fpn_convs.2.conv.bits', 'differs from PyTorch at rpn_head.rpn_conv.0.conv/2, although all layers'),
        ('roi_head.bbox_head.shared_fcs.0.weight', 'gives other detections than PyTorch, although every sign'),
    ],
)
def test_what_is_wrong_in_a_stage_behind_such_a_sign_is_refused(two_stages, name, words):
    model, graph, example = two_stages
    wrong = changed(copy_of(graph), name, lambda value: value ^ 1 if value.dtype == np.uint8 else value[::-1].copy())
    with pytest.raises(ValueError, match=words):
        verify(wrong, model, Task('detection'), [example])


@pytest.fixture(scope='module')
def read(tmp_path_factory):
    """A text classifier with binary attention, its graph, in which signs of the first query differ, and texts."""
    pytest.importorskip('transformers')
    from .texts import classifier

    model = classifier(tmp_path_factory.mktemp('bert'), layers=2)
    task = Task('text-classification')
    graph, texts = graph_of(pack(model).model, task), random_texts(model)[-1:]
    session = open_session(module.with_signs(graph).SerializeToString(), library=False)
    node = next(node for node in graph.graph.node if node.op_type == 'BinaryAttention')
    (queries,) = session.run([node.input[0]], dict(texts[0].inputs))
    moved = np.zeros(queries.shape[2:], np.float32)
    channel = (queries[:, :, 0] >= 0).any((0, 1)).argmax()
    moved[0, channel] = -next_to_zero(queries[:, :, 0, channel])
    graph.graph.initializer.append(numpy_helper.from_array(moved, 'moved'))
    graph.graph.node.insert(
        list(graph.graph.node).index(node), helper.make_node('Add', [node.input[0], 'moved'], ['another_query'])
    )
    next(node for node in graph.graph.node if node.op_type == 'BinaryAttention').input[0] = 'another_query'
    return model, task, graph, texts


def test_signs_inside_of_an_attention_are_compared(read):
    model, task, graph, texts = read
    found = verify(graph, model, task, texts)
    first = next(name for name, flips in found.flips.items() if flips.flipped)
    assert first.endswith('binary_attention query') and found.flips[first].flipped <= module.FEW
    assert found.complete == found.images == len(texts[0].inputs['input_ids'])
    wrong = changed(copy_of(graph), 'encoder.classifier.weight', lambda weight: weight[::-1].copy())
    with pytest.raises(ValueError, match='although every sign is the same: a full-precision'):
        verify(wrong, model, task, texts)
