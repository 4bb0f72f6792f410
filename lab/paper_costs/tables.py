"""Write the tables of lab/reports/size_and_ops.md: the paper's figures next to counted ones, and our own costs."""

from collections.abc import Mapping
from functools import cache

from mmengine.config import Config

from rebnn_mm.analysis.config_network import build_network, input_shape
from rebnn_mm.analysis.layer_cost import NetworkCost
from rebnn_mm.analysis.network_cost import network_cost
from rebnn_mm.utils.config_file import get_config_dir

from .figures import FIGURES, NETWORKS, Figure

TABLES = {'ResNet': 'Table 2', 'Faster': 'Table 3', 'SSD300': 'Table 3', 'BERT': 'Table 4'}


OWN = (
    'imagenet/resnet18_imagenet.py',
    'imagenet/resnet18_rebnn_imagenet.py',
    'imagenet/resnet18_rebnn_two_stage_imagenet.py',
    'imagenet/resnet34_rebnn_imagenet.py',
    'coco/faster_rcnn_r18_coco.py',
    'coco/faster_rcnn_r18_rebnn_coco.py',
    'coco/faster_rcnn_r18_dorefa44_coco.py',
    'coco/faster_rcnn_r18_fpn_rebnn_coco.py',
    'coco/ssd300_vgg16_coco.py',
    'coco/ssd300_vgg16_rebnn_coco.py',
)
"""Configs whose cost is shown."""


@cache
def write_own_table() -> str:
    """Count what networks of this project cost at their config's own input."""
    lines = [
        '| config | input | regions | MACs, G | binary | OPs, G | checkpoint, MB | deployed, MB | compression |',
        '|---|---|--:|--:|--:|--:|--:|--:|--:|',
    ]
    for name in OWN:
        cfg = Config.fromfile(get_config_dir() / name)
        height, width, _ = input_shape(cfg)
        network = network_cost(build_network(cfg), (height, width))
        size = network.deployed_bytes
        cells = [
            f'`{name}`',
            f'{height}x{width}',
            str(network.rois or ''),
            f'{network.macs / 1e9:.3f}',
            f'{network.binary_share():.1%}',
            f'{network.ops / 1e9:.3f}',
            f'{network.checkpoint_bytes / 1e6:.3f}',
            f'{size / 1e6:.3f}',
            f'{network.float_bytes / size:.2f}',
        ]
        lines.append(f'| {" | ".join(cells)} |')
    return '\n'.join(lines) + '\n'


def figures_table(counted: Mapping[str, NetworkCost]) -> str:
    """All figures with what counting gives, and how many round to the printed digits.

    Args:
        counted: every network by its name, as :func:`lab.paper_costs.figures.count_networks` gives them.
    """
    lines = [
        '| paper | row | figure | printed | counted | rounds to it | grade | network | rule | remark |',
        '|---|---|---|--:|--:|:-:|:-:|---|---|---|',
    ]
    matched: dict[str, list[bool]] = {'A': [], 'B': [], 'C': []}
    for figure in FIGURES:
        value = figure.value(counted[figure.network])
        matched[figure.grade].append(figure.matches(value))
        lines.append(_line(figure, value))
    grades = ', '.join(f'{grade} {sum(found)} of {len(found)}' for grade, found in matched.items())
    every = [match for found in matched.values() for match in found]
    lines += ['', f'{sum(every)} of {len(every)} round to the printed digits: {grades}.', '']
    return '\n'.join(lines)


def networks_table() -> str:
    """List the config of each network, the entries that are overridden, and the input."""
    lines = ['| network | config | input | regions | `--cfg-options` |', '|---|---|---|--:|---|']
    for name, network in NETWORKS.items():
        shape = 'x'.join(map(str, network.shape))
        options = ' '.join(f'`{key}={value}`' for key, value in network.options.items())
        lines.append(f'| {name} | `{network.config}` | {shape} | {network.rois or ""} | {options} |')
    return '\n'.join(lines) + '\n'


def _line(figure: Figure, value: float) -> str:
    table = next(table for start, table in TABLES.items() if figure.row.startswith(start))
    quantity = 'size' if figure.quantity == 'size' else 'OPs'
    cells = [
        table,
        figure.row,
        f'{quantity}, {figure.unit}',
        figure.printed,
        f'{value:.4f}',
        'yes' if figure.matches(value) else f'**no**, {figure.round(value)}',
        figure.grade,
        figure.network,
        f'`{figure.rule.name}`',
        figure.note,
    ]
    return f'| {" | ".join(cells)} |'
