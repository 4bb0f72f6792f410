"""A network's cost as a table for the terminal and as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from rich.table import Table

from ..utils.console import plain_console
from .layer_cost import COUNTED, LayerCost, NetworkCost, find_slow_packed_layers

COLUMNS = (
    ('layer', 'left'),
    ('bits W/A', 'center'),
    ('output', 'left'),
    ('parameters', 'right'),
    ('MACs, M', 'right'),
    ('BOPs, M', 'right'),
    ('FLOPs, M', 'right'),
    ('OPs, M', 'right'),
    ('checkpoint, kB', 'right'),
    ('deployed, kB', 'right'),
    ('remark', 'left'),
)
KEYS = (
    *('name', 'kind', 'weight_bits', 'activation_bits', 'calls', 'parameters', 'weights', 'macs', 'ops'),
    *('checkpoint_bytes', 'deployed_bytes'),
)
"""Attributes of a layer that JSON has by the same name."""

TABLE_WIDTH = 190
"""Width of the table where no terminal says its own."""


def cost_dict(network: NetworkCost, source: str = '') -> dict[str, Any]:
    """Everything as plain numbers, in operations and bytes."""
    deployed, ops = network.deployed_bytes, network.ops
    return {
        'input': {'shape': list(network.shape), 'from': source, 'rois': network.rois},
        'counted': COUNTED,
        'total': {
            'parameters': sum(layer.parameters for layer in network.layers),
            'macs': network.macs,
            'macs_by_precision': network.macs_by_precision(),
            'binary_share_of_macs': network.binary_share(),
            'bops': network.bops,
            'flops': network.flops,
            'ops': ops,
            'macs_per_op': network.macs / ops if ops else None,
            'checkpoint_bytes': network.checkpoint_bytes,
            'float_bytes': network.float_bytes,
            'deployed_bytes': deployed,
            'compression': network.float_bytes / deployed if deployed else None,
            'values_through_other_layers': sum(layer.values_out for layer in network.others),
        },
        'layers': [_layer_dict(layer) for layer in network.layers],
    }


def cost_table(network: NetworkCost, source: str = '', width: int | None = None) -> str:
    """The table and the totals for a terminal of a width; None is wide enough for every column."""
    table = Table(box=None, pad_edge=False, header_style='bold')
    for name, align in COLUMNS:
        table.add_column(name, justify=align, overflow='fold')  # type: ignore[arg-type]
    for row in _rows(network):
        table.add_row(*row)
    console = plain_console(width=width or TABLE_WIDTH, color_system=None)
    with console.capture() as captured:
        console.print(table)
        console.print()
        for label, value in summary(network, source):
            console.print(f'{label + ":":<14} {value}', soft_wrap=True)
    return '\n'.join(line.rstrip() for line in captured.get().splitlines()) + '\n'


def summary(network: NetworkCost, source: str = '') -> list[tuple[str, str]]:
    """The totals, each with its label."""
    total = cost_dict(network)['total']
    products = [layer for layer in network.products if layer.weights and 'Embedding' not in layer.kind]
    quantized = [layer for layer in products if layer.quantized]
    weights, all_weights = (sum(layer.weights for layer in layers) for layers in (quantized, products))
    shares = ', '.join(
        f'{bits} {_millions(n)} M ({n / network.macs:.1%})' for bits, n in total['macs_by_precision'].items()
    )
    lines = [
        ('input', f'{"x".join(map(str, network.shape))}{f" ({source})" if source else ""}'),
        ('counted', COUNTED),
        (
            'layers',
            f'{len(quantized)} of {len(products)} convolutions and linear layers have quantized weights and inputs; '
            f'they hold {weights:,} of {all_weights:,} weights ({weights / max(all_weights, 1):.1%})',
        ),
        ('parameters', f'{total["parameters"]:,}'),
        ('MACs', f'{_millions(network.macs)} M: {shares}; binary (1-1): {total["binary_share_of_macs"]:.1%}'),
        ('BOPs, FLOPs', f'{_millions(network.bops)} M, {_millions(network.flops)} M'),
        ('OPs', f'{_millions(total["ops"])} M, {total["macs_per_op"] or 0:.2f} times fewer than MACs'),
        ('checkpoint', f'{total["checkpoint_bytes"] / 1e6:.3f} MB with latent weights, as in the state dict'),
        (
            'deployed',
            f'{total["deployed_bytes"] / 1e6:.3f} MB; the same network with 32-bit weights: '
            f'{total["float_bytes"] / 1e6:.3f} MB; compression {total["compression"] or 0:.2f} times',
        ),
        (
            'elementwise',
            f'{_millions(total["values_through_other_layers"])} M values leave norms, activations and pooling',
        ),
    ]
    slow = find_slow_packed_layers(network.products)
    if slow:
        lines.append(('slow packed', slow))
    if network.rois is not None:
        lines.insert(1, ('regions', f'{network.rois} per image in the second stage'))
    silent = [layer.name for layer in network.layers if layer.weights and not layer.calls]
    if silent:
        lines.append(('not called', f'{len(silent)} layers, counted as deployed: {", ".join(silent[:4])}'))
    return lines


def _rows(network: NetworkCost) -> Iterable[tuple[str, ...]]:
    for layer in network.products:
        yield _row(layer.name or '(model)', [layer], _remark(layer))
    others = sorted(network.others, key=lambda layer: layer.kind)
    for kind, group in groupby(others, key=lambda layer: layer.kind):
        layers = list(group)
        if any(layer.checkpoint_bytes or layer.deployed_bytes or layer.ops for layer in layers):
            yield _row(f'{len(layers)} x {kind}', layers, '')
    yield _row('total', list(network.layers), '')


def _row(name: str, layers: list[LayerCost], remark: str) -> tuple[str, ...]:
    part = NetworkCost(tuple(layers))
    single = layers[0] if len(layers) == 1 and layers[0].product else None
    return (
        name,
        f'{single.weight_bits}/{single.activation_bits}' if single else '',
        'x'.join(map(str, single.output[1:] if single.output[:1] == (1,) else single.output)) if single else '',
        f'{sum(layer.parameters for layer in layers):,}',
        _millions(part.macs),
        _millions(part.bops),
        _millions(part.flops),
        _millions(part.ops),
        f'{part.checkpoint_bytes / 1e3:,.1f}',
        f'{part.deployed_bytes / 1e3:,.1f}',
        remark,
    )


def _remark(layer: LayerCost) -> str:
    calls = {0: 'not called', 1: ''}.get(layer.calls, f'called {layer.calls} times')
    why = layer.why if layer.weights else 'product of activations'
    return '; '.join(part for part in (why, calls) if part)


def _millions(value: float) -> str:
    return f'{value / 1e6:,.2f}'


def _layer_dict(layer: LayerCost) -> dict[str, Any]:
    alone = NetworkCost((layer,))
    about = {'why_real': layer.why, 'output': list(layer.output), 'bops': alone.bops, 'flops': alone.flops}
    return {**{key: getattr(layer, key) for key in KEYS}, **about}
