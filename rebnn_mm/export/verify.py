"""Compares a packed file with the model that it was made from."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.deploy.session import library_available, open_session
from rebnn_mm.layers import BinaryAttention, BinaryConv2d, BinaryLayer
from rebnn_mm.quantizers import ActivationQuantizer

from ..errors import RebnnError
from .difference import IOU, Agreement, Arrays, agreement, match_except_ties, overlaps, same_best
from .distance import Distance, distance_of
from .examples import Example, Image, feeds_of
from .metadata import is_blocked
from .operators import DOMAIN, constants_of
from .packing import unpack_bits
from .tasks import CLASSIFIED, Task, torch_outputs, torch_regions

FLIPPED = 1e-3
"""Largest share of signs that may differ in the first layer where any do, of one image.

PyTorch and ONNX Runtime round a real layer differently, so a value next to zero changes its sign now and then. Layers
after it then see another input, where many more may change: they say nothing about the export.
"""

FEW = 8
"""So many signs may differ there in any case, in a layer however small."""

OTHER_REGION = 0.02
"""Share of differing signs from which on two regions of a detector are not the same one.

Seen on ten images of one detector, 100 regions in each: all regions but one had the same signs, or differed in more
than this.
"""

OTHER_REGIONS = 0.2
"""Largest share of a detector's regions that PyTorch has and the file has not.

Proposals of nearly the same score change places where a real sum is rounded otherwise, and what suppresses which with
them: up to 13 of 100 in one detector of four epochs, for which this limit was raised from a tenth.
Each region is therefore compared with the one of the file that it is most like.
"""

OPERANDS = ('query', 'key', 'value')
"""Inputs of a binary attention whose signs it takes."""

REGIONS = ('RoiAlign', 'RealRoiAlign')
"""Operators whose second input are regions."""

DIFFERENCE = 1e-3
"""Largest difference of an output, relative to its largest value, as long as no sign differs.

So much two classes may be apart in PyTorch and still change places.
"""


class Flips(NamedTuple):
    """Signs of a layer's input."""

    flipped: int  # how many differ between PyTorch and the file
    compared: int  # how many were compared; fewer than there are where a detector's regions differ in number


class Verification(NamedTuple):
    """Result of a comparison."""

    images: int  # how many images or texts were compared
    difference: float  # largest difference of an output from PyTorch's; for a detector, of the score of the same box
    top1: int  # images or texts with the same best class, for a classifier
    detections: list[Agreement]  # agreement of each image's boxes, for a detector
    flips: dict[str, Flips]  # signs that differ, by the name of the layer
    # largest difference between the file with our library and without; None if there is no library
    library: float | None
    complete: int  # images or texts that were compared to the end: no sign differs, or PyTorch was given the file's
    boxes: int = 0  # how many a detector gives in PyTorch and the file together

    @property
    def flipped(self) -> Flips:
        """Sum over all layers."""
        layers = self.flips.values()
        return Flips(sum(layer.flipped for layer in layers), sum(layer.compared for layer in layers))


def verify(
    model: onnx.ModelProto, trained: nn.Module, task: Task, examples: Iterable[Example], *, exact: bool = True
) -> Verification:
    """Check a model, run it in ONNX Runtime without our library and, if there is one, with it, and compare.

    An exact file is compared with PyTorch as its functions compute it, and our kernels must give the same. Another one
    has operators with real sums, which our kernels add up in their own order: then it is compared as they compute it.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
        available = library_available()
        signs, data, blocked = with_signs(model).SerializeToString(), model.SerializeToString(), is_blocked(model)
        session = open_session(signs, library=available and not exact, blocked=blocked)
        other = open_session(data, library=exact, blocked=blocked) if available else None
    except Exception as error:
        raise RebnnError(f'the exported graph is not valid: {first_sentence(error)}') from error
    count, complete, boxes, difference, top1 = 0, 0, 0, 0.0, 0
    library = None if other is None else 0.0
    detections: list[Agreement] = []
    flips: dict[str, Flips] = {}
    for example in examples:
        feeds = feeds_of(model, example)
        try:
            with _Signs(trained) as signs_seen:
                expected = torch_outputs(trained, task, example)
        except Exception as error:  # of the model
            sizes = ', '.join(f'{name} {list(value.shape)} of {value.dtype}' for name, value in feeds.items())
            raise RebnnError(f'the model does not take the example {sizes}: {first_sentence(error)}') from error
        results = _run(session, feeds)
        found = [results[value.name] for value in model.graph.output]
        given = _signs_of(model, results, trained)
        differing = _compare(given, signs_seen.seen, regions=task.name == 'detection')
        for layer, flipped in differing.items():
            old = flips.get(layer, Flips(0, 0))
            flips[layer] = Flips(old.flipped + flipped.flipped, old.compared + flipped.compared)
        followed: Arrays | None = expected
        if _signs_differ(differing):
            regions = _regions_of(model, results) if task.name == 'detection' else None
            followed = _with_signs_of_the_file(trained, task, example, given, regions)
        if followed is not None:
            _refuse_outputs(task, followed, found)
            complete += len(next(iter(feeds.values())))
        if task.name == 'detection':
            detections.append(agreement(expected, found))
            boxes += len(expected[1]) + len(found[1])
            difference = max(difference, detections[-1].score)
        else:
            difference = max(difference, _difference(expected, found).absolute)
            top1 += same_best(task, expected, found)
        if other is not None and library is not None:
            again = list(_run(other, feeds).values())
            library = max(library, _library_difference(task, found, again, exact))
        count += len(next(iter(feeds.values())))
    if count and not complete:
        raise RebnnError(
            'on none of the examples could the file be compared with PyTorch to the end: signs differ, and there are '
            'layers that cannot be given those of the file. Compare on other images or texts.'
        )
    return Verification(count, difference, top1, detections, flips, library, complete, boxes)


def _library_difference(task: Task, found: Arrays, again: Arrays, exact: bool) -> float:
    """How much our library changes; of an exact file more than rounding is refused."""
    if task.name == 'detection' and not exact:
        # Boxes change places, and some come or go, where a sum is rounded otherwise.
        return agreement(found, again).score
    if not exact and any(a.shape != b.shape for a, b in zip(found, again, strict=True)):
        return 0.0
    difference = _difference(found, again)
    if exact and difference.relative > DIFFERENCE:
        raise RebnnError(
            f'the file gives outputs that differ by {difference.relative:.2g} of the largest with the library and '
            'without it.'
        )
    return difference.absolute


def _run(session: onnxruntime.InferenceSession, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    try:
        found = session.run(None, feeds)
    except Exception as error:
        raise RebnnError(f'the exported graph does not run: {first_sentence(error)}') from error
    return dict(zip((value.name for value in session.get_outputs()), found, strict=True))


def with_signs(model: onnx.ModelProto) -> onnx.ModelProto:
    """Add outputs to the graph: the input of every binary operator, and a detector's regions."""
    copy = deepcopy(model)
    known = {value.name for value in [*copy.graph.output, *copy.graph.input]}
    for node in copy.graph.node:
        inputs = list(node.input[:1]) if node.domain == DOMAIN else []
        if node.op_type in REGIONS:
            inputs = list(node.input[1:2])
        elif node.op_type == 'BinaryAttention':
            inputs = list(node.input[: len(OPERANDS)])
        fresh = [name for name in dict.fromkeys(inputs) if name not in known]
        known.update(fresh)
        copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in fresh)
    return copy


class _Signs:
    """Records the signs that binary layers take, by node, and replaces those that are given (True is negative)."""

    def __init__(self, model: nn.Module, given: Mapping[str, np.ndarray] = MappingProxyType({})) -> None:
        self.model = model
        self.given = given
        self.seen: dict[str, np.ndarray] = {}
        self.calls: Counter[str] = Counter()

    def __enter__(self) -> '_Signs':
        self.handles = []
        for name, module in self.model.named_modules():
            if isinstance(module, BinaryLayer) and module.activation_quantizer is not None:
                quantizer = module.activation_quantizer
                self.handles.append(quantizer.register_forward_hook(self._input_hook(name, quantizer)))
            elif isinstance(module, BinaryAttention):
                self.handles.append(module.register_forward_pre_hook(self._attention_hook(name)))
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()

    def _input_hook(self, name: str, quantizer: ActivationQuantizer) -> Callable[[nn.Module, tuple, Tensor], Tensor]:
        _, _, centre = quantizer.two_values()

        def record(module: nn.Module, args: tuple, output: Tensor) -> Tensor:
            return self._take(self._call(name), output, centre)

        return record

    def _attention_hook(self, name: str) -> Callable[[nn.Module, tuple], tuple]:
        def record(module: nn.Module, args: tuple) -> tuple:
            call = self._call(name)
            operands = zip(OPERANDS, args, strict=False)
            signs = (self._take(f'{call} {operand}', torch.where(x < 0, -1.0, 1.0)) for operand, x in operands)
            return *signs, *args[len(OPERANDS) :]

        return record

    def _call(self, name: str) -> str:
        """The name of the node that a call of a layer is."""
        call = self.calls[name]
        self.calls[name] += 1
        return f'{name}/{call}' if call else name

    def _take(self, name: str, values: Tensor, centre: float = 0.0) -> Tensor:
        negative = values < centre
        self.seen[name] = negative.numpy()
        given = self.given.get(name)
        if given is None or given.shape != negative.shape:
            return values
        return torch.where(torch.from_numpy(given) == negative, values, 2 * centre - values)


def _signs_of(model: onnx.ModelProto, results: Mapping[str, np.ndarray], trained: nn.Module) -> dict[str, np.ndarray]:
    """Whether each input of a binary operator is negative, in PyTorch's layout, by node and operand."""
    shifts = constants_of(model.graph)
    found: dict[str, np.ndarray] = {}
    for node in model.graph.node:
        if node.domain != DOMAIN or node.input[0] not in results:
            continue
        x = results[node.input[0]]
        if node.op_type == 'BinaryAttention':
            for operand, name in zip(OPERANDS, node.input, strict=False):
                found[f'{node.name} {operand}'] = np.moveaxis(results[name] < 0, 1, 2)
        elif node.op_type.startswith('Packed'):
            channels = onnx.helper.get_node_attr_value(node, 'channels')
            found[node.name] = np.moveaxis(unpack_bits(x, channels) < 0, -1, 1)
        elif node.op_type == 'BinaryLinear':
            found[node.name] = x + shifts[node.input[2]] < 0
        elif node.op_type.startswith('Binary') and node.op_type != 'BinaryEmbedding':
            last = any(a.s == b'NHWC' for a in node.attribute)
            shift = shifts[node.input[2]]
            negative = x + (shift if last else shift[:, None, None]) < 0
            found[node.name] = np.moveaxis(negative, -1, 1) if last else negative
    layers = dict(trained.named_modules())
    found = {name: _crop_border(negative, layers.get(name.partition('/')[0])) for name, negative in found.items()}
    # What PyTorch is given decides how its maps lie, and RoIAlign of mmcv takes the channels to come first.
    return {name: np.ascontiguousarray(negative) for name, negative in found.items()}


def _crop_border(negative: np.ndarray, layer: nn.Module | None) -> np.ndarray:
    """Cut off the border that the exporter puts before an operator whose padding is not zeros."""
    if not isinstance(layer, BinaryConv2d) or layer.padding_mode == 'zeros':
        return negative
    left, right, top, bottom = layer._reversed_padding_repeated_twice
    height, width = negative.shape[2:]
    return negative[:, :, top : height - bottom, left : width - right]


def _compare(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray], regions: bool) -> dict[str, Flips]:
    """Flipped signs of every operator whose input has the shape that it has in PyTorch.

    A detector's regions, more than one for an image, are compared only as long as no sign before them differs, and
    each with the one that it is most like (:data:`OTHER_REGIONS`).
    """
    flips: dict[str, Flips] = {}
    for name, negative in found.items():
        if name not in expected:
            continue
        wanted = expected[name]
        several = regions and max(len(negative), len(wanted)) > 1
        if several and any(layer.flipped for layer in flips.values()):
            flips[name] = Flips(0, 0)
        elif several and negative.shape[1:] == wanted.shape[1:]:
            flips[name] = region_flips(negative, wanted)
        elif negative.shape == wanted.shape:
            flips[name] = Flips(int((negative != wanted).sum()), negative.size)
        else:
            flips[name] = Flips(0, 0)
    return flips


def _with_signs_of_the_file(
    trained: nn.Module, task: Task, example: Example, given: Mapping[str, np.ndarray], regions: np.ndarray | None
) -> Arrays | None:
    """Run PyTorch with the signs of the file in every binary layer, and its regions in the second stage.

    Each piece of the network between two signs then starts from what it starts from in the file.
    """
    seen: dict[str, np.ndarray] = {}
    if regions is not None and isinstance(example, Image):
        with _Signs(trained, given) as signs:
            proposed = torch_regions(trained, example)
        seen |= signs.seen
        _refuse_regions(proposed, regions)
    with _Signs(trained, given) as signs:
        outputs = torch_outputs(trained, task, example, regions)
    seen |= signs.seen
    for name, expected in seen.items():
        if name not in given or given[name].shape != expected.shape:
            return None
        flipped = int((given[name] != expected).sum())
        if flipped > max(FEW, FLIPPED * expected.size):
            raise RebnnError(
                f'the exported file differs from PyTorch at {name}, although all layers before it were given the same '
                f'signs: {flipped} of the {expected.size} signs of its input '
                f'({100 * flipped / expected.size:.1f} %) on one example.'
            )
    return outputs


def _regions_of(model: onnx.ModelProto, results: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Corners of the regions that a detector's second stage looks at, level by level; None if it has one stage."""
    found = [results[node.input[1]] for node in model.graph.node if node.op_type in REGIONS]
    return np.concatenate(found) if found else None


def _refuse_regions(expected: np.ndarray, found: np.ndarray) -> None:
    """Refuse regions of which more than :data:`OTHER_REGIONS` are others."""
    close = overlaps(expected, found) >= IOU
    alone = [int((~close.any(axis)).sum()) for axis in (1, 0)]
    if any(count > OTHER_REGIONS * size for count, size in zip(alone, close.shape, strict=True)):
        raise RebnnError(
            f'the exported file proposes other regions than PyTorch, although every sign is the same: {alone[0]} of '
            f'{len(expected)} are missing and {alone[1]} of {len(found)} are new on one image.'
        )


def region_flips(found: np.ndarray, expected: np.ndarray) -> Flips:
    """Signs in which each expected region differs from the found one that is most like it."""
    each = int(np.prod(expected.shape[1:]))
    signs, wanted = (1 - 2 * regions.reshape(-1, each).astype(np.float32) for regions in (found, expected))
    nearest = ((each - wanted @ signs.T) / 2).min(axis=1, initial=each)
    same = nearest <= OTHER_REGION * each
    others = int((~same).sum())
    if others > OTHER_REGIONS * len(same):
        return Flips(int(nearest.sum()), wanted.size)
    return Flips(max(int(nearest[same].sum()), int(others > 0)), int(same.sum()) * each)


def _difference(first: Arrays, second: Arrays) -> Distance:
    found = [Distance(0.0, 0.0)]
    for a, b in zip(first, second, strict=True):
        if a.shape != b.shape:
            raise RebnnError(f'an output has the shape {b.shape}, but in PyTorch {a.shape}.')
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            raise RebnnError('an output is not finite where it is in PyTorch, or the other way round.')
        found.append(distance_of(a, b))
    return Distance(*map(max, zip(*found, strict=True)))


def _signs_differ(flips: dict[str, Flips]) -> bool:
    """Whether any sign of an example differs; more than rounding explains are an error."""
    first = next(((layer, *counts) for layer, counts in flips.items() if counts.flipped), None)
    if first is None:
        return False
    layer, flipped, compared = first
    if flipped > max(FEW, FLIPPED * compared):
        raise RebnnError(
            f'the exported file differs from PyTorch first at {layer}: {flipped} of the {compared} signs of its '
            f'input ({100 * flipped / compared:.1f} %) on one example.'
        )
    return True


def _refuse_outputs(task: Task, expected: Arrays, found: Arrays) -> None:
    """Refuse outputs other than PyTorch's where no sign differs, which would explain them."""
    if task.name == 'detection':
        if not match_except_ties(expected, found):
            image = agreement(expected, found)
            raise RebnnError(
                'the exported file gives other detections than PyTorch, although every sign is the same: on one image '
                f'{image.missing} of {len(expected[1])} are missing and {image.extra} of {len(found[1])} are new, the '
                f'others overlap by {image.iou:.4f} or more and their scores differ by at most {image.score:.2g}. A '
                'full-precision operator is not exported right; if it is one of many, a score on a threshold can do '
                'it: then compare on other images.'
            )
        return
    difference = _difference(expected, found).relative
    if difference > DIFFERENCE:
        raise RebnnError(
            f'the exported file gives outputs that differ from those of PyTorch by {difference:.2g} of the largest, '
            'although every sign is the same: a full-precision operator is not exported right.'
        )
    if task.name not in CLASSIFIED:
        return
    scores, best = expected[0], found[0].argmax(-1)
    lead = scores.max(-1) - np.take_along_axis(scores, best[..., None], -1)[..., 0]
    worst = int(lead.argmax())
    if lead.flat[worst] > DIFFERENCE * np.abs(scores).max():
        raise RebnnError(
            f'the exported file gives another best class than PyTorch, {best.flat[worst]} in place of '
            f'{scores.argmax(-1).flat[worst]}, although every sign is the same: a full-precision operator is not '
            'exported right.'
        )
