import pytest
from torch import nn

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import OneBitBackbone


def test_everything_wide_is_binary_and_has_a_shortcut():
    net = OneBitBackbone((16, 32, 32), (2, 2, 1), stem_channels=(8,), out_indices=(1, 2))
    convs = {name: layer for name, layer in net.named_modules() if isinstance(layer, nn.Conv2d)}
    binary = [name for name, layer in convs.items() if isinstance(layer, BinaryConv2d) and layer.binary]
    real = [layer for name, layer in convs.items() if name not in binary]
    assert len(binary) == 5 and all(convs[name].kernel_size == (3, 3) for name in binary)
    assert [(layer.in_channels, layer.out_channels) for layer in real] == [(3, 8), (8, 16), (16, 32), (32, 32)]
    assert all(layer.kernel_size == (1, 1) for layer in real[2:])
    assert all(unit.shortcut for name, unit in net.named_modules() if hasattr(unit, 'shortcut'))


def test_stages_need_a_width_and_a_depth():
    with pytest.raises(ValueError, match=r'channels=\(8, 16\) and depths=\(1,\) must have an entry for each stage'):
        OneBitBackbone((8, 16), (1,))
