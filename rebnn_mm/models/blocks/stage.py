"""A stage: the blocks between two changes of resolution."""

from collections.abc import Mapping
from typing import Any

from mmengine.model import Sequential

from rebnn_mm.registry import BLOCKS


def build_stage(
    block: str | Mapping[str, Any], in_channels: int, out_channels: int, num_blocks: int, *, stride: int, **kwargs: Any
) -> Sequential:
    """Stack blocks of one style; the first one changes channels and resolution.

    Args:
        block: a name in :data:`rebnn_mm.registry.BLOCKS`, or a dict with that name as ``type`` and arguments for it.
        in_channels: channels of the input.
        out_channels: channels of every block's output.
        num_blocks: how many blocks.
        stride: stride of the first block.
        **kwargs: passed to every block (``dilation``, ``conv_cfg``, ``norm_cfg``, ``with_cp``).

    Raises:
        KeyError: no block style of that name is registered.

    Example:
        >>> stage = build_stage('react', 8, 16, 2, stride=2, conv_cfg=dict(type='ReBNNConv2d'))
        >>> [block.conv1.stride for block in stage]
        [(2, 2), (1, 1)]
    """
    options = {'type': block} if isinstance(block, str) else dict(block)
    name = options.pop('type')
    style = BLOCKS.get(name)
    if style is None:
        raise KeyError(
            f'block={name!r} is no registered block style. Use one of {sorted(BLOCKS.module_dict)}, or import the '
            'module that registers yours in rebnn_mm.registry.BLOCKS (custom_imports).'
        )
    channels = [in_channels] + [out_channels] * (num_blocks - 1)
    strides = [stride] + [1] * (num_blocks - 1)
    return Sequential(
        *(style(c, out_channels, stride=s, **options, **kwargs) for c, s in zip(channels, strides, strict=True))
    )
