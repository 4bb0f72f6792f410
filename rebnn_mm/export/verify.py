"""Compares a packed file with the model that it was made from."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import numpy_helper
from torch import Tensor, nn

from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.deploy.session import library_available, open_session
from rebnn_mm.layers import BinaryLayer
from rebnn_mm.quantizers import ActivationQuantizer

from .difference import Agreement, Arrays, agreement, same_best, same_but_for_ties
from .examples import Example, feeds_of
from .metadata import is_blocked
from .operators import DOMAIN
from .packing import unpack_bits
from .tasks import CLASSIFIED, Task, torch_outputs

FLIPPED = 1e-3
"""Largest share of signs that may differ in the first layer where any do, of one image.

PyTorch and ONNX Runtime round a real layer differently, so a value next to zero changes its sign now and then. Layers
behind it then see another input, where many more may change: they say nothing about the export.
"""

FEW = 8
"""So many signs may differ there in any case, in a layer however small."""

OTHER_REGION = 0.1
"""Share of differing signs from which on two regions of a detector are not the same one."""

OTHER_REGIONS = 0.1
"""Largest share of a detector's regions that PyTorch has and the file has not.

Proposals of nearly the same score change places where a real sum is rounded otherwise, and what suppresses which with
them. Each region is therefore compared with the one of the file that it is most like.
"""

DIFFERENCE = 1e-3
"""Largest difference of an output, relative to its largest value, as long as no sign differs.

So much two classes may be apart in PyTorch and still change places.
"""


class Flips(NamedTuple):
    """Signs of a layer's input.

    Attributes:
        flipped: how many differ between PyTorch and the file.
        compared: how many were compared; fewer than there are where a detector's regions differ in number.
    """

    flipped: int
    compared: int


class Verification(NamedTuple):
    """What a comparison found.

    Attributes:
        images: how many images or texts were compared.
        difference: largest difference of an output from PyTorch's; for a detector, of the score of the same box.
        top1: images or texts with the same best class, for a classifier.
        detections: agreement of each image's boxes, for a detector.
        flips: signs that differ, by the name of the layer.
        library: largest difference between the file with our library and without; None if there is no library.
    """

    images: int
    difference: float
    top1: int
    detections: list[Agreement]
    flips: dict[str, Flips]
    library: float | None

    @property
    def flipped(self) -> Flips:
        """Of all layers together."""
        layers = self.flips.values()
        return Flips(sum(layer.flipped for layer in layers), sum(layer.compared for layer in layers))


def verify(
    model: onnx.ModelProto, trained: nn.Module, task: Task, examples: Iterable[Example], *, exact: bool = True
) -> Verification:
    """Check a model, run it in ONNX Runtime without our library and, if there is one, with it, and compare.

    An exact file is compared with PyTorch as its functions compute it, and our kernels must give the same. Another one
    has operators with real sums, which our kernels add up in their own order: then it is compared as they compute it.

    Args:
        model: the finished graph.
        trained: the model that it was made from, on the CPU, in eval mode; not the packed copy.
        task: of both.
        examples: what to compare on.
        exact: whether our kernels must give what the functions give.

    Raises:
        ValueError: the model is no valid ONNX, does not run, or gives another answer than PyTorch; the message says
            where it starts.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
        available = library_available()
        signs, data, blocked = with_signs(model).SerializeToString(), model.SerializeToString(), is_blocked(model)
        session = open_session(signs, library=available and not exact, blocked=blocked)
        other = open_session(data, library=exact, blocked=blocked) if available else None
    except Exception as error:
        raise ValueError(f'the exported graph is not valid: {first_sentence(error)}') from error
    count, difference, top1, library = 0, 0.0, 0, None if other is None else 0.0
    detections: list[Agreement] = []
    flips: dict[str, Flips] = {}
    for example in examples:
        feeds = feeds_of(model, example)
        with _Signs(trained) as expected_signs:
            expected = torch_outputs(trained, task, example)
        results = _run(session, feeds)
        found = [results[value.name] for value in model.graph.output]
        differing = _compared(model, results, expected_signs.seen, regions=task.name == 'detection')
        for layer, flipped in differing.items():
            old = flips.get(layer, Flips(0, 0))
            flips[layer] = Flips(old.flipped + flipped.flipped, old.compared + flipped.compared)
        signs_differ = _signs_differ(differing)
        if task.name == 'detection':
            wanted, given = _boxes(expected), _boxes(found)
            detections.append(agreement(wanted, given))
            difference = max(difference, detections[-1].score)
            if not signs_differ and not same_but_for_ties(wanted, given):
                raise ValueError(_other_detections(detections[-1], len(wanted[1]), len(given[1])))
        else:
            here = _difference(expected, found)
            difference = max(difference, here.absolute)
            if not signs_differ:
                _refuse_scores(task, expected, found, here.relative)
            top1 += same_best(task, expected, found)
        if other is not None and library is not None:
            again = list(_run(other, feeds).values())
            # Detectors may find another number of boxes where a sum is rounded otherwise.
            if exact or all(a.shape == b.shape for a, b in zip(found, again, strict=True)):
                here = _difference(found, again)
                library = max(library, here.absolute)
                if exact and here.relative > DIFFERENCE:
                    raise ValueError(
                        f'the file gives outputs that differ by {here.relative:.2g} of the largest with the library '
                        'and without it.'
                    )
        count += len(next(iter(feeds.values())))
    return Verification(count, difference, top1, detections, flips, library)


def _run(session: onnxruntime.InferenceSession, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    try:
        found = session.run(None, feeds)
    except Exception as error:
        raise ValueError(f'the exported graph does not run: {first_sentence(error)}') from error
    return dict(zip((value.name for value in session.get_outputs()), found, strict=True))


def with_signs(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same graph with the input of every binary operator as a further output.

    Example:
        >>> with_signs(onnx.ModelProto()) == onnx.ModelProto()
        True
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = {value.name for value in [*copy.graph.output, *copy.graph.input]}
    for node in copy.graph.node:
        if node.domain == DOMAIN and node.input[0] not in known:
            known.add(node.input[0])
            copy.graph.output.append(onnx.ValueInfoProto(name=node.input[0]))
    return copy


class _Signs:
    """Records what the activation quantizers of a trained model give, by the names of their nodes."""

    def __init__(self, model: nn.Module) -> None:
        self.seen: dict[str, np.ndarray] = {}
        self.layers = {
            name: module
            for name, module in model.named_modules()
            if isinstance(module, BinaryLayer) and module.activation_quantizer is not None
        }

    def __enter__(self) -> '_Signs':
        self.handles = [
            module.activation_quantizer.register_forward_hook(self._hook(name, module.activation_quantizer))
            for name, module in self.layers.items()
            if module.activation_quantizer is not None
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _hook(self, name: str, quantizer: ActivationQuantizer) -> Callable[[nn.Module, tuple, Tensor], None]:
        calls = iter(range(1_000_000))
        values = quantizer.two_values()
        centre = 0.0 if values is None else values[2]

        def record(module: nn.Module, args: tuple, output: Tensor) -> None:
            call = next(calls)
            self.seen[f'{name}/{call}' if call else name] = (output < centre).numpy()

        return record


def _compared(
    model: onnx.ModelProto, results: dict[str, np.ndarray], expected: dict[str, np.ndarray], regions: bool
) -> dict[str, Flips]:
    """Flipped signs of every binary operator whose input has the shape that it has in PyTorch.

    A detector's regions, more than one for an image, are compared only as long as no sign before them differs, and
    each with the one that it is most like (:data:`OTHER_REGIONS`).
    """
    shifts = _constants(model.graph)
    flips: dict[str, Flips] = {}
    for node in model.graph.node:
        if node.domain != DOMAIN or node.name not in expected or node.input[0] not in results:
            continue
        x = results[node.input[0]]
        channels = next(a.i for a in node.attribute if a.name == 'channels')
        if node.op_type.startswith('Packed'):
            negative = np.moveaxis(unpack_bits(x, channels) < 0, -1, 1)
        else:
            last = node.op_type == 'BinaryLinear' or any(a.s == b'NHWC' for a in node.attribute)
            shift = shifts[node.input[2]]
            negative = x + (shift if last else shift[:, None, None]) < 0
            if last and node.op_type != 'BinaryLinear':
                negative = np.moveaxis(negative, -1, 1)
        several = regions and max(len(negative), len(expected[node.name])) > 1
        if several and any(layer.flipped for layer in flips.values()):
            flips[node.name] = Flips(0, 0)
        elif several and negative.shape[1:] == expected[node.name].shape[1:]:
            flips[node.name] = region_flips(negative, expected[node.name])
        elif negative.shape == expected[node.name].shape:
            flips[node.name] = Flips(int((negative != expected[node.name]).sum()), negative.size)
        else:
            flips[node.name] = Flips(0, 0)
    return flips


def region_flips(found: np.ndarray, expected: np.ndarray) -> Flips:
    """Signs in which each expected region differs from the found one that is most like it.

    Args:
        found: whether each input of the file is negative, shape (regions, C, H, W).
        expected: the same of PyTorch; the number of regions may be another.

    Example:
        >>> expected = np.random.default_rng(0).random((20, 4, 3, 3)) < 0.5
        >>> region_flips(expected[::-1], expected), region_flips(expected[1:], expected)
        (Flips(flipped=0, compared=720), Flips(flipped=1, compared=684))
    """
    each = int(np.prod(expected.shape[1:]))
    signs, wanted = (1 - 2 * regions.reshape(-1, each).astype(np.float32) for regions in (found, expected))
    nearest = ((each - wanted @ signs.T) / 2).min(axis=1, initial=each)
    same = nearest <= OTHER_REGION * each
    others = int((~same).sum())
    if others > OTHER_REGIONS * len(same):
        return Flips(int(nearest.sum()), wanted.size)
    return Flips(max(int(nearest[same].sum()), int(others > 0)), int(same.sum()) * each)


def _constants(graph: onnx.GraphProto) -> dict[str, np.ndarray]:
    """The constants of a graph by name, those that are stored otherwise too: in half precision, or as one value."""
    found = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == 'Cast' and node.input[0] in found:
            found[node.output[0]] = found[node.input[0]].astype(np.float32)
        elif node.op_type == 'ConstantOfShape' and node.input[0] in found:
            value = numpy_helper.to_array(node.attribute[0].t)
            found[node.output[0]] = np.full(found[node.input[0]], value[0])
    return found


def _boxes(outputs: Arrays) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    boxes, scores, labels = outputs
    return boxes, scores, labels


class _Difference(NamedTuple):
    absolute: float
    relative: float
    """To the largest value of the output that it is in."""


def _difference(first: Arrays, second: Arrays) -> _Difference:
    absolute = relative = 0.0
    for a, b in zip(first, second, strict=True):
        if a.shape != b.shape:
            raise ValueError(f'an output has the shape {b.shape}, but in PyTorch {a.shape}.')
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            raise ValueError('an output is not finite where it is in PyTorch, or the other way round.')
        finite = np.isfinite(a)
        here = float(np.abs(a[finite] - b[finite]).max(initial=0))
        scale = float(np.abs(a[finite]).max(initial=0))
        absolute = max(absolute, here)
        relative = max(relative, here / scale if scale else float('inf') * bool(here))
    return _Difference(absolute, relative)


def _signs_differ(flips: dict[str, Flips]) -> bool:
    """Whether any sign of an example differs; more than rounding explains are an error."""
    first = next(((layer, *counts) for layer, counts in flips.items() if counts.flipped), None)
    if first is None:
        return False
    layer, flipped, compared = first
    if flipped > max(FEW, FLIPPED * compared):
        raise ValueError(
            f'the exported file differs from PyTorch first at {layer}: {flipped} of the {compared} signs of its '
            f'input ({100 * flipped / compared:.1f} %) on one example.'
        )
    return True


def _refuse_scores(task: Task, expected: Arrays, found: Arrays, difference: float) -> None:
    """Refuse outputs other than PyTorch's where no sign differs, which would explain them."""
    if difference > DIFFERENCE:
        raise ValueError(
            f'the exported file gives outputs that differ from those of PyTorch by {difference:.2g} of the largest, '
            'although every sign is the same: a real-valued operator is not exported right.'
        )
    if task.name not in CLASSIFIED:
        return
    scores, best = expected[0], found[0].argmax(-1)
    lead = scores.max(-1) - np.take_along_axis(scores, best[..., None], -1)[..., 0]
    worst = int(lead.argmax())
    if lead.flat[worst] > DIFFERENCE * np.abs(scores).max():
        raise ValueError(
            f'the exported file gives another best class than PyTorch, {best.flat[worst]} in place of '
            f'{scores.argmax(-1).flat[worst]}, although every sign is the same: a real-valued operator is not '
            'exported right.'
        )


def _other_detections(image: Agreement, expected: int, found: int) -> str:
    return (
        'the exported file gives other detections than PyTorch, although every sign is the same: on one image '
        f'{image.missing} of {expected} are missing and {image.extra} of {found} are new, the others overlap by '
        f'{image.iou:.4f} or more and their scores differ by at most {image.score:.2g}. A real-valued operator is not '
        'exported right; if it is one of many, a score on a threshold can do it: then compare on other images.'
    )
