"""From a packed file back to a checkpoint, whose latent weights stand at plus or minus their scaling factor.

A packed file holds what a network computes with, not what it was trained with: norms are two constants, and some
have moved into the weights of the layer before. Where each number of the file belongs is found by exporting the
network of the config with numbers of our own, no two alike: where one of them comes out, the file's number goes in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import cast

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from rebnn_mm.deploy.onnx_file import read_onnx
from rebnn_mm.deploy.operators import check_operators
from rebnn_mm.layers import BinaryLayer
from rebnn_mm.quantizers.base import ActivationQuantizer, WeightQuantizer

from ..errors import RebnnError
from .convert import PackedModel, pack
from .detection.traced_parts import image_channels
from .metadata import is_blocked
from .operators import DOMAIN, constants_of
from .options import Options
from .packed_layers import ChannelAffine, PackedLayer
from .packing import unpack_bits
from .passes import Compact, FoldFactors, passes_of
from .rewriting import RESIDUAL, apply_passes
from .tasks import TEXT, Task, graph_of, task_of
from .two_valued import two_values_of

Place = tuple[str, ...]
"""Place of a constant in a graph: our node, its kind and the number of the input; else the constant's own name."""

CLOSE = 1e-5
"""Largest relative difference of a file's number and the same one out of the unpacked network."""

SIZE = (64, 64)
"""Size of the image that a model is traced with, if it takes any."""

DEQUANTIZED = '_DequantizeLinear_Output'


def unpack(model: nn.Module, file: onnx.ModelProto, size: tuple[int, int] = SIZE) -> list[str]:
    """Give a model the numbers of a packed file, so that it computes what the file does.

    Latent weights become their signs times the scaling factor of the channel. A batch norm gets mean 0 and variance
    1, because the file does not know what it was; :func:`fit_norms` finds that out from images. What was stored with
    fewer bits comes back as it was stored.

    Args:
        model: the network of the file's config, of any numbers; it is changed.
        file: written by :func:`rebnn_mm.export.export`.
        size: height and width of an image that the model takes; most take any.

    Returns:
        Names of parameters that the file does not hold, which stay as they are: of parts that only train.

    Raises:
        ValueError: the file is of another network, or has binary layers whose method gives no such weights back.
    """
    task = task_of(model)
    if task.name == TEXT:
        raise RebnnError('text classifiers cannot be unpacked: the file holds no word embedding to train on.')
    for name, layer in model.named_modules():
        quantizer = layer.weight_quantizer if isinstance(layer, BinaryLayer) else None
        if quantizer is not None and (not quantizer.values.has_codes or two_values_of(layer) is not None):
            raise RebnnError(
                f'{type(layer).__name__} {name!r} cannot be unpacked: {type(quantizer).__name__} and '
                f'{type(layer.activation_quantizer).__name__} make no signs with a factor.'
            )
    model.eval()
    check_operators(read_onnx(file.SerializeToString()))
    stored = constants(file)
    probe = pack(model)
    _number(probe.model, model)
    fast = is_blocked(file) or any(node.op_type in ('RealRoiAlign', 'RealStem') for node in file.graph.node)
    folded = fast and _is_folded(stored)
    image = torch.zeros(1, image_channels(model), *size)
    wrong = []
    for fused in (True, False):
        options = Options(fast=fast, fuse=fused)
        places = constants(_graph(probe, task, options, image, folded))
        missing = [place for place, value in places.items() if place not in stored or stored[place].size != value.size]
        unknown = [place for place in stored if place not in places]
        if not missing and not unknown:
            break
        reason = 'has no constant of that size' if missing else 'has a constant that the network has not'
        wrong.append(f'the file {reason}, {" ".join([*missing, *unknown][0])}, so it is of another network.')
    else:
        raise RebnnError(wrong[0])
    found = _read_back(probe.model, places, stored)
    left = _fill(model, probe, found, stored)
    _check(constants(_graph(pack(model), task, options, image, folded)), stored)
    return left


def constants(model: onnx.ModelProto) -> dict[Place, NDArray]:
    """Every constant of a graph's nodes by its place, in float32 however it is stored; bits and integers as they are.

    Example:
        >>> weight = onnx.numpy_helper.from_array(np.float16([[1, 2]]), 'w.half')
        >>> cast = onnx.helper.make_node('Cast', ['w.half'], ['w'], to=1)
        >>> graph = onnx.helper.make_graph([cast, onnx.helper.make_node('Neg', ['w'], ['y'])], 'g', [], [], [weight])
        >>> constants(onnx.helper.make_model(graph))
        {('w',): array([[1., 2.]], dtype=float32)}
    """
    known = constants_of(model.graph)
    found: dict[Place, NDArray] = {}
    for node in model.graph.node:
        if node.output[0] in known:
            continue
        for number, name in enumerate(node.input):
            value = known.get(name)
            if value is None:
                continue
            if node.domain == DOMAIN:
                found[node.name, node.op_type, str(number)] = value
            elif value.dtype == np.float32 and (value.size > 1 or node.op_type == 'Conv'):
                found[(name.removesuffix(DEQUANTIZED),)] = value
    return found


def _is_folded(stored: Mapping[Place, NDArray]) -> bool:
    """Whether every block has one factor per channel; files of ``--fast`` had two at first."""
    blocks = [place[:2] for place in stored if len(place) == 3 and place[1] in RESIDUAL]
    return all((stored.get((*block, str(RESIDUAL[block[1]] - 2)), np.zeros(1)) == 1).all() for block in blocks)


def _graph(packed: PackedModel, task: Task, options: Options, image: Tensor, folded: bool) -> onnx.ModelProto:
    graph = graph_of(packed.model, task, image)
    left_out = Compact if folded else (Compact, FoldFactors)
    return apply_passes(graph, *(step for step in passes_of(task, options) if not isinstance(step, left_out)))


def _number(packed: nn.Module, model: nn.Module) -> None:
    """Give what a file holds of a packed model numbers of its own: no two alike, none that a pass could leave out."""
    generator = torch.Generator().manual_seed(0)

    def renew(tensor: Tensor) -> None:
        tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)

    with torch.no_grad():
        for name, part in packed.named_modules():
            if isinstance(part, PackedLayer):
                layer = model.get_submodule(name)
                assert isinstance(layer, BinaryLayer) and layer.weight_quantizer is not None
                scaled = layer.weight_quantizer.codes(layer.weight)[1] is not None
                shifted = getattr(layer.activation_quantizer, 'shift', None) is not None
                for tensor, wanted in (
                    (part.scale, scaled),
                    (part.shift, shifted),
                    (part.bias, layer.bias is not None),
                ):
                    if wanted:
                        renew(tensor)
            elif isinstance(part, ChannelAffine):
                renew(part.mul)
                renew(part.add)
        for parameter in packed.parameters():
            renew(parameter)


Find = Callable[[NDArray], NDArray | None]
"""Gives the numbers of the file that stand where a graph of ours has these; None where it has them nowhere."""

Named = dict[str, NDArray]
"""Tensors of a packed model by name."""


def _read_back(
    packed: nn.Module, places: Mapping[Place, NDArray], stored: Mapping[Place, NDArray]
) -> dict[str, Tensor]:
    """The tensors of a packed model, by name, as the file has them; what it does not hold is left out."""
    tensors = {name: tensor.numpy() for name, tensor in packed.state_dict().items() if tensor.is_floating_point()}
    affines = {name: part for name, part in packed.named_modules() if isinstance(part, ChannelAffine)}
    by_size: dict[int, list[Place]] = {}
    for place, value in places.items():
        if value.dtype == np.float32:
            by_size.setdefault(value.size, []).append(place)

    def find(tensor: NDArray) -> NDArray | None:
        for place in by_size.get(tensor.size, []):
            for there, back in _forms(tensor):
                if np.allclose(there, places[place].ravel(), rtol=CLOSE, atol=0):
                    return back(stored[place])
        return None

    found = {name: at for name, tensor in tensors.items() if (at := find(tensor)) is not None}
    _read_joined_factors(tensors, affines, find, found)
    _read_folded_norms(tensors, affines, find, found)
    _read_scaled_layers(tensors, find, found)
    return {name: torch.from_numpy(np.array(value, np.float32)) for name, value in found.items()}


def _read_joined_factors(tensors: Named, affines: Mapping[str, ChannelAffine], find: Find, found: Named) -> None:
    """Find scales that --fast has multiplied with the factor of a norm."""
    for name, tensor in tensors.items():
        if name in found or not name.endswith('.scale'):
            continue
        for norm, affine in affines.items():
            if len(affine.mul) != len(tensor) or f'{norm}.mul' in found:
                continue
            factor = find(tensor * affine.mul.numpy())
            if factor is not None:
                # a scale is positive
                found[name], found[f'{norm}.mul'] = np.abs(factor), np.where(factor < 0, -1, 1)
                break


def _read_folded_norms(tensors: Named, affines: Mapping[str, ChannelAffine], find: Find, found: Named) -> None:
    """Find norms that have moved into the layer before, where they stay."""
    for name, tensor in tensors.items():
        if name in found or not name.endswith('.weight'):
            continue
        bias_name = f'{name.removesuffix("weight")}bias'
        bias = tensors.get(bias_name, np.float32(0))
        for norm, affine in affines.items():
            mul, add = affine.mul.numpy(), affine.add.numpy()
            if len(mul) != len(tensor) or f'{norm}.mul' in found:
                continue
            weight = find(tensor * mul.reshape(-1, *[1] * (tensor.ndim - 1)))
            if weight is None:
                continue
            total = bias * mul + add
            # --fast has moved what a shortcut adds into the norm of its block, where it stays
            blocks = {other: part.add.numpy() for other, part in affines.items() if len(part.add) == len(add)}
            totals = {norm: total, **{other: total + there for other, there in blocks.items() if other != norm}}
            ends = ((other, at) for other, there in totals.items() if (at := find(there)) is not None)
            end, value = next(ends, ('', None))
            if value is None:
                continue
            found[name], found[f'{norm}.mul'] = weight, np.ones_like(mul)
            found[f'{norm}.add'] = np.zeros_like(add)
            found[f'{end}.add'] = value
            if bias.ndim:
                found[bias_name] = np.zeros_like(mul)
            break


def _read_scaled_layers(tensors: Named, find: Find, found: Named) -> None:
    """Find a layer of several maps, each with a factor of its own, of which only the products are known."""
    for name, tensor in tensors.items():
        if name in found or not name.endswith('.weight'):
            continue
        bias_name = f'{name.removesuffix("weight")}bias'
        bias = tensors.get(bias_name, np.float32(0))
        for scalar, value in tensors.items():
            there = find(tensor * value) if value.size == 1 else None
            sums = find(bias * value) if there is not None and bias.ndim else None
            if there is None or (bias.ndim and sums is None):
                continue
            if name not in found:
                # Halved and doubled: a factor of 1 would be left out of the graph, and its products named otherwise.
                found[name], found[scalar] = there / 2, np.full_like(value, 2)
                if sums is not None:
                    found[bias_name] = sums / 2
            else:
                ratio = np.vdot(there, found[name]) / np.vdot(found[name], found[name])
                found[scalar] = np.full_like(value, ratio)


def _forms(tensor: NDArray) -> Iterator[tuple[NDArray, Callable[[NDArray], NDArray]]]:
    """The forms in which a graph may hold a tensor, flat, each with the way back."""
    shape = tensor.shape
    yield tensor.ravel(), lambda value: value.reshape(shape)
    yield -tensor.ravel(), lambda value: -value.reshape(shape)
    if tensor.ndim > 1:
        columns = tensor.reshape(len(tensor), -1)
        yield columns.T.ravel(), lambda value: value.reshape(columns.shape[::-1]).T.reshape(shape)


def _fill(
    model: nn.Module, probe: PackedModel, found: dict[str, Tensor], stored: Mapping[Place, NDArray]
) -> list[str]:
    """Write what was found into the model; gives the names of its parameters that were not."""
    bits = {place[0]: value for place, value in stored.items() if value.dtype == np.uint8 and len(place) == 3}
    done: set[str] = set()
    with torch.no_grad():
        for name, part in probe.model.named_modules():
            if isinstance(part, PackedLayer):
                layer = model.get_submodule(name)
                assert isinstance(layer, BinaryLayer)
                signs = torch.from_numpy(unpack_bits(bits[name], part.channels)).movedim(-1, 1)
                _fill_layer(layer, name, signs, found)
                done.update(f'{name}.{key}' for key, _ in layer.named_parameters())
            elif isinstance(part, ChannelAffine):
                norm = model.get_submodule(name)
                assert isinstance(norm, _BatchNorm) and norm.running_mean is not None and norm.running_var is not None
                if f'{name}.mul' not in found or f'{name}.add' not in found:
                    continue
                norm.running_mean.zero_()
                norm.running_var.fill_(1 - norm.eps)
                if norm.affine:
                    norm.weight.copy_(found[f'{name}.mul'])
                    norm.bias.copy_(found[f'{name}.add'])
                done.update(f'{name}.{key}' for key, _ in norm.named_parameters())
        for name, parameter in model.named_parameters():
            if name not in done and name in found:
                parameter.copy_(found[name].view_as(parameter))
                done.add(name)
    return [name for name, _ in model.named_parameters() if name not in done]


def _fill_layer(layer: BinaryLayer, name: str, signs: Tensor, found: Mapping[str, Tensor]) -> None:
    weights, inputs = layer.weight_quantizer, layer.activation_quantizer
    assert isinstance(weights, WeightQuantizer) and isinstance(inputs, ActivationQuantizer)
    scale = found.get(f'{name}.scale')
    factor = torch.ones(len(signs)) if scale is None else scale
    layer.weight.copy_(signs * factor.view(-1, *[1] * (signs.dim() - 1)))
    if scale is not None:
        for parameter in weights.parameters():
            if parameter.numel() == scale.numel():
                parameter.copy_(scale.view_as(parameter))
    if inputs.shift is not None and f'{name}.shift' in found:
        inputs.shift.copy_(found[f'{name}.shift'].view_as(inputs.shift))
    bias = cast(Tensor | None, layer.bias)
    if bias is not None and f'{name}.bias' in found:
        bias.copy_(found[f'{name}.bias'])
    weights.follows_weight = False
    codes, own = weights.codes(layer.weight)
    same = own is None or torch.allclose(own.flatten(), factor, rtol=CLOSE, atol=0)
    if not (torch.equal(codes.float(), signs) and same):
        raise RebnnError(
            f'{type(layer).__name__} {name!r} cannot be unpacked: of weights at plus or minus their factor '
            f'{type(weights).__name__} makes other signs or another factor.'
        )


def _check(ours: Mapping[Place, NDArray], stored: Mapping[Place, NDArray]) -> None:
    """Check that every constant of the unpacked model is the file's."""
    for place, value in ours.items():
        there = stored.get(place)
        if there is None or not _near(value, there.reshape(value.shape)):
            raise RebnnError(f'the constant {" ".join(place)} of the file does not come out of the unpacked network.')


def _near(ours: NDArray, there: NDArray) -> bool:
    if ours.dtype != np.float32:
        return np.array_equal(ours, there)
    return bool(np.allclose(ours, there, rtol=CLOSE, atol=CLOSE * float(np.abs(there).max(initial=0))))


def fit_norms(model: nn.Module, run: Callable[[], Iterable[object]]) -> int:
    r"""Give batch norms the statistics of data, without changing what the network computes in evaluation.

    With the mean :math:`\mu` and the variance :math:`v` of a norm's input, :math:`y = x m + a` is kept by
    weight :math:`m \sqrt{v + \epsilon}` and bias :math:`a + \mu m`. Training then starts where evaluation is.

    Args:
        model: in eval mode; its norms are changed.
        run: runs the model on all the data, one item after the other.

    Returns:
        How many norms have seen data.

    Example:
        >>> norm = nn.BatchNorm1d(1).eval()
        >>> x = torch.tensor([[1.], [3.]])
        >>> before = norm(x)
        >>> fit_norms(norm, lambda: [norm(x)]), bool(torch.allclose(norm(x), before)), float(norm.running_mean)
        (1, True, 2.0)
    """
    sums: dict[_BatchNorm, list[Tensor]] = {}

    def note(norm: _BatchNorm, inputs: tuple[Tensor]) -> None:
        x = inputs[0].detach().double()
        if not x.numel():  # of regions, where an image has none
            return
        dims = [dim for dim in range(x.dim()) if dim != 1]
        count = torch.tensor(x.numel() / x.shape[1])
        seen = [count, x.sum(dims), x.square().sum(dims)]
        sums[norm] = [a + b for a, b in zip(sums[norm], seen, strict=True)] if norm in sums else seen

    norms = [part for part in model.modules() if isinstance(part, _BatchNorm) and part.affine]
    handles = [norm.register_forward_pre_hook(note) for norm in norms]
    try:
        with torch.no_grad():
            for _ in run():
                pass
    finally:
        for handle in handles:
            handle.remove()
    with torch.no_grad():
        for norm, (count, total, squares) in sums.items():
            assert norm.running_mean is not None and norm.running_var is not None
            mean = total / count
            variance = (squares / count - mean.square()).clamp(min=0)
            mul = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
            add = norm.bias.double() - norm.running_mean.double() * mul
            norm.weight.copy_(mul * (variance + norm.eps).sqrt())
            norm.bias.copy_(add + mean * mul)
            norm.running_mean.copy_(mean)
            norm.running_var.copy_(variance)
    return len(sums)
