"""The table that the exporter prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import numpy_helper
from rich.console import Console
from rich.table import Table

from rebnn_mm.analysis.layer_cost import LayerCost, find_slow_packed_layers

from ..utils.console import plain_console
from .metadata import find_packed_nodes, find_packed_weights
from .passes.half import SMALL


@dataclass(frozen=True)
class LayerReport:
    """One layer with a weight."""

    name: str  # dotted name in the model
    bits: str  # of weight and input, such as ``'1/1'``
    size: int  # bytes of the weight in the file
    binary: int  # multiply-accumulates of one bit with one bit, for one example
    real: int  # all others
    why: str  # why the layer is not packed; empty if it is


@dataclass(frozen=True)
class Report:
    """Contents of a file, counted in bytes."""

    layers: list[LayerReport]  # in the model's order
    size: int  # bytes of the file
    real_size: int  # bytes of all real constants, weights and vectors
    example: str  # what the multiply-accumulates are for, ``'an image of 32 x 32'``
    slow: str = ''  # a sentence on layers that are slower packed than real; empty if there are none

    @property
    def packed_size(self) -> int:
        """Bytes of the packed weights."""
        return sum(layer.size for layer in self.layers if not layer.why)


def report_of(
    model: onnx.ModelProto,
    costs: tuple[LayerCost, ...],
    packed: list[str],
    real: Mapping[str, str],
    example: str,
    size: int,
    int8: Sequence[str] = (),
) -> Report:
    """Collect the report."""
    weights = find_packed_weights(model)
    sizes = {node.name: numpy_helper.to_array(weights[node.input[1]]).nbytes for node in find_packed_nodes(model)}
    half = any(tensor.data_type == onnx.TensorProto.FLOAT16 for tensor in model.graph.initializer)

    def real_size(cost: LayerCost) -> int:
        return cost.weights * (1 if cost.name in int8 else 2 if half and cost.weights > SMALL else 4)

    layers = []
    for cost in costs:
        if not cost.product:
            continue
        binary = cost.name in packed
        why = '' if binary else real.get(cost.name) or cost.why or 'real'
        layers.append(
            LayerReport(
                cost.name,
                '8/8' if cost.name in int8 else f'{cost.weight_bits}/{cost.activation_bits}',
                sizes.get(cost.name, 0) if binary else real_size(cost),
                cost.macs if binary else 0,
                0 if binary else cost.macs,
                why,
            )
        )
    # A layer that is called more than once, as a shared head is, has one weight and several operators.
    constants = [
        numpy_helper.to_array(tensor).nbytes for tensor in model.graph.initializer if tensor.name not in weights
    ]
    slow = find_slow_packed_layers(cost for cost in costs if cost.name in packed)
    return Report(layers, size, sum(constants), example, slow)


def say(console: Console, text: str) -> None:
    """Print a line as it is."""
    console.print(text, soft_wrap=True)


def print_report(report: Report, console: Console | None = None) -> None:
    """Print the table and the totals."""
    console = console or plain_console(width=120)
    table = Table(title=f'Layers, at {report.example}')
    for column, justify in (
        ('layer', 'left'),
        ('bits W/A', 'right'),
        ('bytes', 'right'),
        ('binary MACs', 'right'),
        ('real MACs', 'right'),
        ('not packed because', 'left'),
    ):
        table.add_column(column, justify=justify, no_wrap=column == 'layer')  # type: ignore[arg-type]
    for layer in report.layers:
        macs = [f'{count:,}' if count else '' for count in (layer.binary, layer.real)]
        table.add_row(layer.name, layer.bits, f'{layer.size:,}', *macs, layer.why)
    binary, real = (sum(getattr(layer, kind) for layer in report.layers) for kind in ('binary', 'real'))
    # Names are long in a text encoder, and half a number says nothing: then lines are longer than the terminal.
    longest = max((len(layer.name) for layer in report.layers), default=0)
    plain_console(file=console.file, width=max(console.width, longest + 80)).print(table)
    total = binary + real
    share = f', {100 * binary / total:.1f} % of them binary' if total else ''
    console.print(f'Multiply-accumulates: {binary:,} binary and {real:,} real{share}.')
    if report.slow:
        say(console, f'Slow: {report.slow}')
    rest = report.size - report.packed_size - report.real_size
    console.print(
        f'File: {report.size:,} bytes ({report.size / 1e6:.2f} MB): {report.packed_size:,} of packed weights, '
        f'{report.real_size:,} of real constants, {rest:,} of graph, functions and metadata.'
    )
