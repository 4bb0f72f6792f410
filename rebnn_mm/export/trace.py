"""From a torch module to an ONNX model in memory."""

import ast
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence

import onnx
import torch
from onnx_ir.passes.common import NameFixPass
from torch import Tensor, nn

from .operators import DOMAIN, IR_VERSION, OPSET, all_nodes, attach_functions


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
