import pytest
import torch
from torch import nn
from torch.nn import functional

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import BinaryVGGSmall
from tests.tolerances import FLOAT64_EXACT

BINARY = dict(type='BinaryConv2d')


def test_six_convolutions_of_the_published_widths_and_the_first_is_real():
    with torch.device('meta'):
        convs = [module for module in BinaryVGGSmall().modules() if isinstance(module, nn.Conv2d)]
    assert [conv.out_channels for conv in convs] == [128, 128, 256, 256, 512, 512]
    assert type(convs[0]) is nn.Conv2d
    assert all(isinstance(conv, BinaryConv2d) and conv.binary for conv in convs[1:])


def test_is_the_written_out_network():
    torch.manual_seed(0)
    net = BinaryVGGSmall(base_channels=4, conv_cfg=None, block='relu').double().eval()
    x = y = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    for number in range(1, 7):
        y = functional.conv2d(y, getattr(net, f'conv{number}').weight, padding=1)
        if number in (2, 4, 6):
            y = functional.max_pool2d(y, 2)
        y = functional.relu(y / (1 + 1e-5) ** 0.5)
    torch.testing.assert_close(net(x)[0], y, atol=FLOAT64_EXACT, rtol=0)


def test_pooling_sees_sums_and_not_signs():
    """A maximum of signs would be +1 almost everywhere; after BN both signs are left for the next layer."""
    torch.manual_seed(0)
    net = BinaryVGGSmall(base_channels=8, conv_cfg=BINARY).train()
    seen = []
    for number in (3, 5):
        getattr(net, f'conv{number}').register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    net(torch.randn(8, 3, 16, 16))
    assert [tuple(x.shape[2:]) for x in seen] == [(8, 8), (4, 4)]
    assert all(0.3 < (x >= 0).float().mean() < 0.7 and x.abs().max() <= 1 for x in seen)


@pytest.mark.parametrize(('block', 'shift'), [('hardtanh', None), ('react', 'zero')])
def test_block_style_chooses_the_shift(block, shift):
    net = BinaryVGGSmall(base_channels=4, block=block, conv_cfg=BINARY)
    assert {m.activation_quantizer.shift_start for m in net.modules() if isinstance(m, BinaryConv2d)} == {shift}


def test_every_parameter_trains():
    net = BinaryVGGSmall(base_channels=4, conv_cfg=BINARY)
    net(torch.randn(4, 3, 16, 16))[0].square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in net.parameters())


def test_unknown_block_is_refused():
    with pytest.raises(ValueError, match="block='inception' is not a registered block style"):
        BinaryVGGSmall(block='inception')
