"""From a torch module to an ONNX model in memory."""

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import torch
from onnx_ir.passes.common import NameFixPass
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from rebnn_mm.deploy.session import library_available, open_session

from ..errors import RebnnError
from ..utils.console import quiet
from .distance import distance_of
from .operators import DOMAIN, IR_VERSION, OPSET, all_nodes, attach_functions

SAME = 0.1
"""Difference of outputs, relative to the largest, that rounding may make of another number of images: signs near zero
may change. A graph that mixes images up gives something else altogether."""

CLAMPS = ('clamp', 'clamp_', 'clip', 'clip_')
ADAPTIVE = tuple(f'adaptive_{kind}_pool{dims}d' for kind in ('avg', 'max') for dims in (1, 2, 3))
"""Functions that :class:`_Traceable` looks at."""


def trace(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    dynamic: Mapping[str, Sequence[int]] | None = None,
) -> onnx.ModelProto:
    """Trace a module into an ONNX model; packed layers in it become operators of the domain ``rebnn``.

    Standard operators are of opset 18. A node of ours bears the dotted name of its layer, with ``/1``, ``/2`` after
    it at further calls. The functions of the operators in use are attached.

    Args:
        module: in eval mode; its forward takes the inputs in their order and returns a tensor, or several in tuples
            or lists.
        inputs: name and example of each input. A dimension that is dynamic should not be 1 in the example.
        outputs: names of the outputs.
        dynamic: for each input the dimensions whose size is free, unless the module itself fixes it.

    Raises:
        ValueError: the module cannot be traced; the message says why, as far as torch does.

    Example:
        >>> model = trace(nn.Hardtanh(), {'x': torch.ones(2, 4)}, ['y'], {'x': [0]})
        >>> [node.op_type for node in model.graph.node], [len(model.graph.input), len(model.graph.output)]
        (['Clip'], [1, 1])
    """
    dims = dynamic or {}
    # The names of the parameters of forward are not those of the inputs, so the dimensions go by position.
    shapes = tuple(dict.fromkeys(dims.get(name, ()), torch.export.Dim.DYNAMIC) for name in inputs)
    with torch.no_grad(), quiet(), _Traceable():  # the tracer logs whole tracebacks of what it gets around
        try:
            program = torch.onnx.export(
                module,
                tuple(inputs.values()),
                dynamo=True,
                dynamic_shapes=shapes,
                input_names=list(inputs),
                output_names=list(outputs),
                opset_version=OPSET,
                optimize=True,
                verbose=False,
            )
        except Exception as error:
            raise RebnnError(f'{type(module).__name__} cannot be traced: {_reason(error)}') from error
    assert program is not None
    NameFixPass()(program.model)  # an output may bear the name of another value otherwise
    model = program.model_proto
    model.ir_version = IR_VERSION
    _name_nodes(model.graph)
    _strip(model)
    return attach_functions(model)


class _Traceable(TorchFunctionMode):
    """Writes calls that the tracer does not take as it takes them, and stops at those that it does not end on."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, kwargs = getattr(func, '__name__', ''), kwargs or {}
        if name in CLAMPS and args[0].is_floating_point():
            # one bound of each kind has no operator
            args = (args[0], *map(_as_float, args[1:]))
            kwargs = {key: _as_float(value) for key, value in kwargs.items()}
        elif name in ADAPTIVE:
            cells = args[1] if len(args) > 1 else kwargs['output_size']
            if _free_cells(args[0], cells, sides=int(name[-2])):
                raise RebnnError(
                    f'{name} to several cells has no operator for maps of any size; pool to one, or with a kernel.'
                )
        return func(*args, **kwargs)


def _as_float(bound: Any) -> Any:
    return float(bound) if type(bound) is int else bound


def _free_cells(x: Tensor, cells: int | Sequence[int | None] | None, sides: int) -> bool:
    """Whether a side of no known length is pooled to more than one cell."""
    wanted = [cells] * sides if cells is None or isinstance(cells, int) else cells
    lengths = zip(x.shape[-sides:], wanted, strict=True)
    return any(isinstance(length, torch.SymInt) and count not in (None, 1) for length, count in lengths)


def trace_images(
    module: nn.Module, images: Tensor, outputs: Sequence[str], any_size: bool = True, fixed: Tensor | None = None
) -> onnx.ModelProto:
    """Trace a module that takes images, any number of them and of any size, unless the module itself fixes it.

    One that makes a Python number of how many images there are or how large, as the windows of Swin and
    ``int(1.5 * height)`` do, gets a graph for that number: the tracer would keep the example's without a word.
    """
    if any_size:
        try:
            graph = trace(module, {'image': images}, outputs, {'image': [0, 2, 3]})
        except ValueError:  # as a rule because the size is a number somewhere; another reason is met again below
            pass
        else:
            if _takes_other_sizes(graph, module, images):
                return graph if _takes_one(graph, images.shape) else _of_one_image(module, images, outputs, [2, 3])
    images = images if fixed is None else fixed
    graph = trace(module, {'image': images}, outputs, {'image': [0]})
    return graph if _takes_one(graph, images.shape) else _of_one_image(module, images, outputs, [])


def _of_one_image(module: nn.Module, images: Tensor, outputs: Sequence[str], sides: list[int]) -> onnx.ModelProto:
    return trace(module, {'image': images[:1].clone()}, outputs, {'image': sides})


def _takes_other_sizes(graph: onnx.ModelProto, module: nn.Module, images: Tensor) -> bool:
    """Whether a graph gives for larger images what the module gives; as many are left out that the module refuses."""
    height, width = (-(-side * 3 // 64) * 32 for side in images.shape[2:])
    larger = torch.randn(*images.shape[:2], height, width, generator=torch.Generator().manual_seed(0))
    try:
        with torch.no_grad():
            expected = [value.numpy() for value in _pytree.tree_leaves(module(larger))]
    except Exception:  # of the model, which takes this size only or others than this one
        return True
    session = open_session(graph.SerializeToString(), library=library_available())
    try:
        found = session.run(None, {'image': larger.numpy()})
    except Exception:  # of ONNX Runtime
        return False
    return all(
        one.shape == other.shape and np.abs(one - 1.0 * other).sum() <= SAME * np.abs(1.0 * one).sum()
        for one, other in zip(expected, found, strict=True)
    )


def _takes_one(graph: onnx.ModelProto, shape: Sequence[int]) -> bool:
    """Whether a graph gives for one image what it gives for that one among several."""
    session = open_session(graph.SerializeToString(), library=library_available())
    images = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    several = session.run(None, {'image': images})
    try:
        alone = session.run(None, {'image': images[:1]})
    except Exception:  # of ONNX Runtime, whose classes have no common base below Exception
        return False
    return all(
        one.shape == (1, *many.shape[1:]) and distance_of(many[:1], one).relative <= SAME
        for one, many in zip(alone, several, strict=True)
    )


def _reason(error: BaseException) -> str:
    """The innermost error in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return ' '.join(str(error).split())[:500] or type(error).__name__


def _name_nodes(graph: onnx.GraphProto) -> None:
    calls: Counter[str] = Counter()
    for node in all_nodes(graph):
        if node.domain != DOMAIN:
            continue
        scopes = next((entry.value for entry in node.metadata_props if entry.key == 'pkg.torch.onnx.name_scopes'), '')
        layer = ast.literal_eval(scopes)[-2] if scopes else node.name
        node.name = f'{layer}/{calls[layer]}' if calls[layer] else layer
        calls[layer] += 1


def _strip(model: onnx.ModelProto) -> None:
    """Drop what tells of this machine, such as stack traces."""
    del model.metadata_props[:], model.graph.metadata_props[:]
    for node in all_nodes(model.graph):
        del node.metadata_props[:]
        node.ClearField('doc_string')
    graph = model.graph
    for value in [*graph.input, *graph.output, *graph.initializer, *graph.value_info]:
        del value.metadata_props[:]
