"""From a torch module to an ONNX model in memory."""

import ast
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import torch
from onnx_ir.passes.common import NameFixPass
from torch import Tensor, nn

from rebnn_mm.deploy.session import library_available, open_session

from .operators import DOMAIN, IR_VERSION, OPSET, all_nodes, attach_functions

SAME = 0.1
"""Difference of outputs, relative to the largest, that rounding may make of another number of images: signs near zero
may change. A graph that mixes images up gives something else altogether."""


def trace(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    dynamic: Mapping[str, Sequence[int]] | None = None,
) -> onnx.ModelProto:
    """Trace a module into an ONNX model; packed layers in it become operators of the domain ``rebnn``.

    Standard operators are of opset 18. A node of ours bears the dotted name of its layer, with ``/1``, ``/2`` behind
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
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter('ignore')
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
            raise ValueError(f'{type(module).__name__} cannot be traced: {_reason(error)}') from error
    assert program is not None
    NameFixPass()(program.model)  # an output may bear the name of another value otherwise
    model = program.model_proto
    model.ir_version = IR_VERSION
    _name_nodes(model.graph)
    _strip(model)
    return attach_functions(model)


def trace_images(module: nn.Module, images: Tensor, outputs: Sequence[str], any_size: bool = True) -> onnx.ModelProto:
    """Trace a module that takes images, any number of them and of any size, unless the module itself fixes it.

    One that makes a Python number of how many images there are, as the windows of Swin do, gets a graph for one: the
    tracer would keep the number of the example without a word.

    Args:
        module: in eval mode; its forward takes images and returns a tensor, or several in tuples or lists.
        images: an example, (N, C, H, W), of at least two.
        outputs: names of the outputs.
        any_size: False for a module that is known to take images of this size only.

    Raises:
        ValueError: the module cannot be traced; the message says why.

    Example:
        >>> model = trace_images(nn.Hardtanh(), torch.ones(2, 3, 8, 8), ['y'])
        >>> [bool(dim.dim_value) for dim in model.graph.input[0].type.tensor_type.shape.dim]
        [False, True, False, False]
    """
    sides = [2, 3] if any_size else []
    graph = trace(module, {'image': images}, outputs, {'image': [0, *sides]})
    if _takes_one(graph, images.shape):
        return graph
    return trace(module, {'image': images[:1].clone()}, outputs, {'image': sides})


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
        one.shape == (1, *many.shape[1:])
        and np.abs(one - many[:1]).max(initial=0) <= SAME * np.abs(many).max(initial=0)
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
