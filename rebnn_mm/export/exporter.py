"""From a trained model to a verified packed file."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from torch import nn

from rebnn_mm.analysis.layer_counter import count_layers
from rebnn_mm.deploy.onnx_file import read_onnx, seal
from rebnn_mm.deploy.operators import check_operators
from rebnn_mm.deploy.session import library_available
from rebnn_mm.deploy.whole_file import whole_file

from ..errors import RebnnError
from .calibration import how_little, looks_like
from .convert import PackedModel, pack, unwrap
from .detection.traced_parts import image_channels, two_stage
from .difference import Difference, difference_of
from .examples import Example, Image, Text, feeds_of, noise, prepare_example
from .metadata import set_metadata
from .options import PLAIN, Options
from .passes import passes_of
from .passes.int8 import TIERS, Choice, Plan, plan_int8
from .report import Report, report_of
from .rewriting import apply_passes
from .tasks import TEXT, Task, graph_of, input_names, longest_text, random_texts, task_of, torch_outputs
from .verify import Verification, verify

__all__ = ['Export', 'build_unfused_graph', 'export', 'export_file', 'noise', 'prepare_example', 'write']

COUNTED = 128
"""Tokens of the text that multiply-accumulates are counted for."""


class Quantized(NamedTuple):
    """Result of choosing layers for int8.

    Attributes:
        choices: every full-precision layer, with the reason why it became int8 or did not.
        weight_bits: 8, or 7.
        change: what that changes on the calibration images.
        before: the bytes of the same file without it.
        little: one sentence on how little the calibration images tell; empty if they are enough.
        compared: what that changes on the images that the file was compared with PyTorch on; None for noise.
    """

    choices: list[Choice]
    weight_bits: int
    change: Difference
    before: bytes
    little: str = ''
    compared: Difference | None = None


class Export(NamedTuple):
    """A finished export.

    Attributes:
        data: the bytes of the file.
        task: what it gives.
        fixed: dimensions of the inputs that are not free, such as ``'image height 32'``.
        report: layers and sizes.
        verification: the comparison with PyTorch, in single precision.
        half: what half precision changes; None without it.
        fast: what ``fast`` changes; None without it.
        half_stem: what the stem in half precision changes against the exact file, as this machine computes it.
        int8: what became int8, and what that changes.
    """

    data: bytes
    task: Task
    fixed: list[str]
    report: Report
    verification: Verification
    half: Difference | None
    fast: Difference | None = None
    half_stem: Difference | None = None
    int8: Quantized | None = None


def build_unfused_graph(trained: nn.Module, task: Task, size: tuple[int, int]) -> tuple[onnx.ModelProto, PackedModel]:
    """Build the graph of a trained model, packed, before all passes.

    Raises:
        ValueError: the model cannot be packed or traced; the message says why.
    """
    packed = pack(trained)
    example = None if task.name == TEXT else torch.zeros(1, image_channels(trained), *size)
    return graph_of(packed.model, task, example), packed


@torch.autocast('cpu', enabled=False)
def export(
    trained: nn.Module,
    options: Options = PLAIN,
    *,
    preprocess: Mapping[str, Any] | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    config: str = '',
    classes: Sequence[str] = (),
    examples: Sequence[Example] = (),
    calibration: Sequence[Example] = (),
    size: tuple[int, int] = (224, 224),
    progress: Callable[[str], None] = lambda step: None,
    watch: Callable[[Sequence[Example]], Iterable[Example]] = iter,
) -> Export:
    """Export a trained model and verify what came out, as :func:`export_file` does. Nothing is written.

    In addition to that it takes the file name of the training ``config``, ``progress``, which is called with what
    begins, and ``watch``, which wraps the examples while they are compared, as a progress bar does.
    """
    if not isinstance(trained, nn.Module):
        raise RebnnError(f'a {type(trained).__name__} is no model: load its weights into one, and export that.')
    sides = list(size) if isinstance(size, list | tuple) else []
    if len(sides) != 2 or not all(type(side) is int and side > 0 for side in sides):
        raise RebnnError(f'size must be the height and width of an image, not {size!r}.')
    trained = unwrap(trained).cpu().float()
    trained.eval()  # gives None where a backbone of OpenMMLab's has a train() of its own
    _check_finite(trained)
    task = task_of(trained)
    _check_options(options, task)
    progress('packing and tracing')
    traced, packed = build_unfused_graph(trained, task, size)
    count = _class_count(traced, trained, task)
    if classes and count not in (None, len(classes)):
        raise RebnnError(f'the model tells {count} classes apart, and {len(classes)} names of classes are given.')
    given = bool(examples)
    if task.name == TEXT:
        about: dict[str, Any] = {'tokenizer': tokenizer or {'max_length': longest_text(trained)}}
        # Random ones always: they have padding, as a batch has.
        examples = [*random_texts(trained), *examples]
    else:
        about = {'preprocess': dict(preprocess or {'channels': 'rgb'})}
        examples = examples or noise(about['preprocess'], size, image_channels(trained))

    def made(options: Options, plan: Plan | None = None) -> onnx.ModelProto:
        graph = apply_passes(traced, *passes_of(task, options, plan))
        int8 = None if plan is None else {'layers': plan.layers, 'weight_bits': plan.weight_bits}
        set_metadata(graph, task.name, config=config, classes=classes, int8=int8, blocked=options.fast, **about)
        return graph

    graph = made(replace(options, half=False, half_stem=False))
    progress(f'comparing with PyTorch on {_tell_count(examples)}')
    verification = verify(graph, trained, task, watch(examples), exact=not options.fast)
    fast = half_stem = half = int8 = plan = None
    library = library_available()
    if options.fast:
        progress('comparing with the exact file')
        exact = made(Options(fuse=options.fuse))
        fast = difference_of(exact, graph, task, examples, option='fast', library=library)
        if options.half_stem and any(node.op_type == 'RealStem' for node in graph.graph.node):
            graph = made(replace(options, half=False))
            half_stem = difference_of(exact, graph, task, examples, option='half_stem', library=library)
    if options.int8:
        progress(f'calibrating int8 layers on {len(calibration)} images')
        plan, little = _calibrate(graph, options, calibration)
        single, graph = graph, made(replace(options, half=False), plan)
        progress('comparing int8 with single precision')
        compare = partial(difference_of, single, graph, task, option='int8', library=library)
        change, compared = compare(calibration), compare(examples) if given else None
        spoilt = (compared or change).find_damage(task)
        if spoilt and verification.images:  # none where `watch` leaves all out: answers of random weights say nothing
            raise RebnnError(
                f'the file with int8 is useless: {spoilt}. {little or "Take the tier heads, or no int8."}'
            )
        before = seal(made(options).SerializeToString())
        int8 = Quantized(plan.choices, plan.weight_bits, change, before, little, compared)
    if options.half:
        progress('comparing half with single precision')
        single, graph = graph, made(options, plan)
        half = difference_of(single, graph, task, examples, option='half')
    progress('counting')
    data = seal(graph.SerializeToString())
    check_operators(read_onnx(data))
    report = _report(graph, trained, task, packed, examples[0], len(data), [] if plan is None else plan.layers)
    return Export(data, task, _find_fixed_sizes(graph), report, verification, half, fast, half_stem, int8)


def export_file(
    trained: nn.Module,
    path: str | Path,
    options: Options = PLAIN,
    *,
    size: tuple[int, int] = (224, 224),
    preprocess: Mapping[str, Any] | None = None,
    tokenizer: Mapping[str, Any] | None = None,
    classes: Sequence[str] = (),
    examples: Sequence[Example] = (),
    calibration: Sequence[Example] = (),
) -> Export:
    """Export a trained model, compare the result with PyTorch, and write the packed file.

    Also available as ``rebnn_mm.export_file``. Where the comparison fails, no file is written, and one that was there
    stays. For a file that is not written use :func:`export`, which also takes the callbacks of a progress bar.

    Args:
        trained: a model of mmpretrain, of mmdet, a :class:`rebnn_mm.models.language.TextClassifier`, or any module
            whose forward takes images and returns tensors; it is not changed, so training can go on.
        path: of the file; missing folders are made.
        options: of the file.
        size: height and width of an image that the model takes.
        preprocess: for images the object ``rebnn.preprocess`` of docs/format.md; None for RGB images as they are.
        tokenizer: for texts the object ``rebnn.tokenizer``; None if only the length is known.
        classes: class names.
        examples: images (:func:`prepare_example`) or texts to compare with PyTorch on; none for noise.
        calibration: images that tell the ranges of int8 layers.

    Returns:
        Export: the bytes, the report of layers and sizes, and what the comparison found.

    Raises:
        ValueError: the model cannot be exported, or the file does not give PyTorch's answer; the message says why.
        OSError: the file cannot be written.

    Example:
        >>> import tempfile
        >>> from rebnn_mm.deploy import load
        >>> from rebnn_mm.methods import ReBNNConv2d
        >>> net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Hardtanh(), ReBNNConv2d(8, 8, 3), nn.BatchNorm2d(8))
        >>> path = Path(tempfile.mkdtemp(), 'net.onnx')
        >>> result = export_file(net, path, size=(16, 16))
        >>> result.verification.difference < 1e-3, path.stat().st_size == len(result.data)
        (True, True)
        >>> [output.shape for output in load(path)(np.zeros((16, 16, 3), np.uint8)).values()]
        [(1, 8, 12, 12)]
    """
    result = export(
        trained,
        options,
        preprocess=preprocess,
        tokenizer=tokenizer,
        classes=classes,
        examples=examples,
        calibration=calibration,
        size=size,
    )
    write(result.data, path)
    return result


def write(data: bytes, path: str | Path) -> None:
    """Write a file, whole or not at all."""
    with whole_file(path) as part:
        part.write_bytes(data)


def _check_finite(model: nn.Module) -> None:
    # The statistics of norms, too: under AMP a step that overflows is left out, and they have seen it.
    values = [*model.named_parameters(), *((name, b) for name, b in model.named_buffers() if 'running_' in name)]
    diverged = next((name for name, value in values if not value.isfinite().all()), None)
    if diverged is not None:
        raise RebnnError(
            f'{diverged} contains NaN or Inf: the training diverged. Export an earlier checkpoint, or '
            'train at a lower rate.'
        )


def _check_options(options: Options, task: Task) -> None:
    if options.half_stem and not options.fast:
        raise RebnnError('half_stem is an option of the stem that fast makes; give both.')
    if options.fast and task.name == TEXT:
        raise RebnnError('fast is for models that take images; a text classifier has no layer that it makes faster.')
    if options.int8 and task.name == TEXT:
        raise RebnnError('int8 is for models that take images; export this one with half.')
    if options.int8 and options.int8 not in TIERS:
        raise RebnnError(f'int8={options.int8!r} is none of {", ".join(TIERS)}.')
    if options.reduce_range and not options.int8:
        raise RebnnError('reduce_range is an option of the layers that int8 makes; give both.')


def _calibrate(graph: onnx.ModelProto, options: Options, images: Sequence[Example]) -> tuple[Plan, str]:
    """Choose the int8 layers and measure their ranges; with one sentence if the images tell little."""
    looks: list[str] = []

    def feeds() -> Iterator[dict[str, np.ndarray]]:
        for image in images:
            if isinstance(image, Image):
                looks.append(looks_like(image))
            yield feeds_of(graph, image)

    plan = plan_int8(graph, options.int8, feeds(), reduced=options.reduce_range)
    return plan, how_little(looks)


def _class_count(graph: onnx.ModelProto, trained: nn.Module, task: Task) -> int | None:
    """How many classes a classifier or a detector knows; None if that cannot be seen."""
    if task.name == 'detection':
        owner: Any = trained.roi_head if two_stage(trained) else trained
        return int(owner.bbox_head.num_classes)
    dims = graph.graph.output[0].type.tensor_type.shape.dim
    return dims[-1].dim_value or None if task.name == 'classification' and dims else None


def _tell_count(examples: Sequence[Example]) -> str:
    texts = [len(example.inputs['input_ids']) for example in examples if isinstance(example, Text)]
    return f'{sum(texts)} texts' if texts else f'{len(examples)} images'


def _report(
    graph: onnx.ModelProto,
    trained: nn.Module,
    task: Task,
    packed: PackedModel,
    example: Example,
    size: int,
    int8: Sequence[str],
) -> Report:
    if isinstance(example, Image):
        height, width = example.values.shape[2:]
        about = f'an image of {height} x {width}'
    else:
        length = min(COUNTED, longest_text(trained))
        example = Text({name: np.ones((1, length), np.int64) for name in input_names(trained)})
        about = f'a text of {length} tokens'
    costs = count_layers(trained, lambda: torch_outputs(trained, task, example))
    return report_of(graph, costs, packed.packed, packed.real, about, size, int8)


def _find_fixed_sizes(model: onnx.ModelProto) -> list[str]:
    """Dimensions of the image that are fixed, apart from the channels; a detector takes one image at a time."""
    found = []
    for value in model.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name == 'image' and len(dims) == 4:
            batch = [] if any(other.name == 'valid_size' for other in model.graph.input) else [('batch', dims[0])]
            for what, dim in [*batch, ('height', dims[2]), ('width', dims[3])]:
                if dim.HasField('dim_value'):
                    found.append(f'{what} {dim.dim_value}')
    return found
