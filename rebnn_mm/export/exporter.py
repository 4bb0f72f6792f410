"""From a trained model to a verified packed file."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import torch
from torch import nn

from rebnn_mm.analysis.layer_counter import count_layers
from rebnn_mm.deploy.onnx_file import seal
from rebnn_mm.deploy.preprocess import Preprocess
from rebnn_mm.deploy.session import library_available

from .convert import PackedModel, pack
from .detection.stages import image_channels
from .difference import Difference, difference_of
from .metadata import set_metadata
from .passes import channels_last, compact, fold_norms, fuse, halve_stem, join_stem, to_half
from .report import Report, report_of
from .task import Task, graph_of, task_of, torch_outputs
from .verify import Image, Verification, verify

RANDOM_IMAGES = 2
"""How many images of noise a file is verified on if none are given."""


class Export(NamedTuple):
    """A finished export.

    Attributes:
        data: the bytes of the file.
        task: what it gives.
        fixed: dimensions of the inputs that are not free, such as ``'image height 32'``.
        report: layers and sizes.
        verification: the comparison with PyTorch, in single precision.
        half: what half precision changes; None without it.
        fast: what faster real-valued kernels change; None without them, and if the model has no layer for them.
        half_stem: what the stem in half precision changes against the exact file, as this machine computes it.
    """

    data: bytes
    task: Task
    fixed: list[str]
    report: Report
    verification: Verification
    half: Difference | None
    fast: Difference | None = None
    half_stem: Difference | None = None


def unfused_graph(trained: nn.Module, task: Task, size: tuple[int, int]) -> tuple[onnx.ModelProto, PackedModel]:
    """The graph of a trained model, packed and not fused.

    Args:
        trained: it is not changed.
        task: from :func:`task_of`.
        size: height and width of an image that the model takes.

    Raises:
        ValueError: the model cannot be packed or traced; the message says why.
    """
    packed = pack(trained)
    return graph_of(packed.model, task, torch.zeros(1, image_channels(trained), *size)), packed


def export(
    trained: nn.Module,
    *,
    preprocess: Mapping[str, Any] | None = None,
    config: str = '',
    classes: Sequence[str] = (),
    images: Sequence[Image] = (),
    size: tuple[int, int] = (224, 224),
    half: bool = False,
    fused: bool = True,
    fast: bool = False,
    half_stem: bool = False,
    progress: Callable[[str], None] = lambda step: None,
    watch: Callable[[Sequence[Image]], Iterable[Image]] = iter,
) -> Export:
    """Export a trained model and verify what came out. Nothing is written.

    Args:
        trained: a model of mmpretrain, of mmdet, or any module that takes images; it is not changed.
        preprocess: the object ``rebnn.preprocess`` of docs/format.md; None for RGB images as they are.
        config: file name of the training config.
        classes: class names.
        images: what to compare with PyTorch on; none for noise.
        size: height and width of an image that the model takes.
        half: store real constants as float16.
        fused: join operators, and put the channels last in front of and behind binary convolutions.
        fast: give real-valued layers that have a faster kernel of ours to it (:func:`rebnn_mm.export.join_stem`). The
            file is then the same up to float32 rounding of real sums, not bit for bit.
        half_stem: with ``fast``, let the stem multiply 16-bit numbers where a processor has them.
        progress: called with what begins.
        watch: wraps the images while they are compared, as a progress bar does.

    Raises:
        ValueError: the model cannot be exported, or the file does not give PyTorch's answer; the message says why.
    """
    if half_stem and not fast:
        raise ValueError('--half-stem is an option of the stem that --fast makes; give both.')
    trained = deepcopy(trained).cpu().float().eval()
    task = task_of(trained)
    progress('packing and tracing')
    graph, packed = unfused_graph(trained, task, size)
    preprocess = dict(preprocess or {'channels': 'rgb'})

    def finished(traced: onnx.ModelProto) -> onnx.ModelProto:
        made = compact(channels_last(fold_norms(fuse(traced))) if fused else traced)
        set_metadata(made, task.name, config=config, classes=classes, preprocess=preprocess)
        return made

    traced, joined = graph, join_stem(graph) if fast else graph
    faster = joined is not traced
    graph = finished(joined)
    images = images or noise(preprocess, size, image_channels(trained))
    progress(f'comparing with PyTorch on {len(images)} images')
    verification = verify(graph, trained, task, watch(images), exact=not faster)
    difference = stem = halved = None
    if faster:
        progress('comparing with the exact file')
        exact, library = finished(traced), library_available()
        difference = difference_of(exact, graph, task, images, option='--fast', library=library)
        if half_stem:
            graph = halve_stem(graph)
            stem = difference_of(exact, graph, task, images, option='--half-stem', library=library)
    if half:
        progress('comparing half with single precision')
        single, graph = graph, to_half(graph)
        halved = difference_of(single, graph, task, images, option='--half')
    progress('counting')
    data = seal(graph.SerializeToString())
    first = images[0]
    costs = count_layers(
        trained, lambda: torch_outputs(trained, task, torch.from_numpy(first.values), first.valid_size)
    )
    height, width = first.values.shape[2:]
    report = report_of(graph, costs, packed.packed, packed.real, f'an image of {height} x {width}', len(data))
    return Export(data, task, _fixed(graph), report, verification, halved, difference, stem)


def write(data: bytes, path: str | Path) -> None:
    """Write a file, whole or not at all.

    Raises:
        OSError: it cannot be written; what was there before stays.
    """
    path = Path(path)
    part = path.with_name(f'.{path.name}.{os.getpid()}.part')
    try:
        part.write_bytes(data)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def noise(preprocess: Mapping[str, Any], size: tuple[int, int], channels: int = 3) -> list[Image]:
    """Images of random pixels that went through the steps before the network, always the same ones.

    Example:
        >>> [image.values.shape for image in noise({'channels': 'rgb'}, (8, 6))]
        [(1, 3, 8, 6), (1, 3, 8, 6)]
    """
    rng = np.random.default_rng(0)
    if channels != 3:
        values = rng.normal(size=(RANDOM_IMAGES, 1, channels, *size)).astype(np.float32)
        return [Image(value, size) for value in values]
    pixels = rng.integers(0, 256, (RANDOM_IMAGES, *size, 3), np.uint8)
    return [prepared(preprocess, image) for image in pixels]


def prepared(preprocess: Mapping[str, Any], image: np.ndarray) -> Image:
    """An image (H, W, 3) of 8 bits in the order RGB, as the network takes it.

    Example:
        >>> steps = {'channels': 'rgb', 'mean': [1, 1, 1], 'std': [2, 2, 2]}
        >>> prepared(steps, np.full((1, 2, 3), 5, np.uint8)).values[0, 0]
        array([[2., 2.]], dtype=float32)
    """
    found = Preprocess.parse(json.dumps(dict(preprocess)))(image)
    return Image(found.image, found.valid_size)


def _fixed(model: onnx.ModelProto) -> list[str]:
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
