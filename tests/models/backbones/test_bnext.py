import pytest
import torch
from torch import nn
from torch.nn import functional

from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.models import BNext
from rebnn_mm.models.backbones.bnext import BNextBlock, BNextUnit
from tests.export.networks import lively
from tests.tolerances import FLOAT64_EXACT


@pytest.mark.parametrize('attention', [True, False])
@pytest.mark.parametrize('stride', [1, 2])
def test_unit_is_the_written_out_function(attention, stride):
    torch.manual_seed(0)
    unit = lively(BNextUnit(16, 3, stride=stride, attention=attention).double())
    unit.mix.data.uniform_(0, 1)
    x = torch.randn(2, 16, 6, 4, dtype=torch.float64)

    def norm(module: nn.BatchNorm2d, y: torch.Tensor) -> torch.Tensor:
        return functional.batch_norm(y, module.running_mean, module.running_var, module.weight, module.bias)

    pooled = functional.avg_pool2d(x, stride)
    z = norm(unit.bn1, functional.conv2d(x, unit.conv.weight, stride=stride, padding=1))
    z = torch.where(z < 0, 0.25 * z, z)
    hidden = (unit.mix * pooled + (1 - unit.mix) * z).mean(dim=(2, 3))
    hidden = (hidden @ unit.se.squeeze.weight.flatten(1).T + unit.se.squeeze.bias).clamp(min=0)
    hidden = hidden @ unit.se.excite.weight.flatten(1).T + unit.se.excite.bias
    v = z / (1 + torch.exp(-hidden))[:, :, None, None]
    if attention:
        residual = functional.avg_pool2d(torch.where(x < 0, 0.25 * x, x), stride)
        expected = norm(unit.bn2, v * residual) + residual
    else:
        expected = norm(unit.bn2, v) + pooled
    torch.testing.assert_close(unit(x), expected, atol=FLOAT64_EXACT, rtol=0)


def test_share_is_kept_within_its_bounds_in_training():
    unit = BNextUnit(8, 1)
    unit.mix.data.fill_(1.2)
    unit.eval()(torch.randn(2, 8, 3, 3))
    assert unit.mix.max() > 1
    unit.train()(torch.randn(2, 8, 3, 3)).sum().backward()
    assert unit.mix.max() == 1 and unit.mix.grad.isfinite().all()


def test_a_widening_block_has_two_pointwise_units():
    assert len(BNextBlock(8, 16).pointwise) == 2 and len(BNextBlock(8, 8).pointwise) == 1


@pytest.mark.parametrize(
    ('arch', 'weights', 'blocks'),
    [('tiny', 28_253_184, 13), ('small', 63_569_664, 13), ('middle', 126_238_464, 21), ('large', 173_424_384, 29)],
)
def test_sizes(arch, weights, blocks):
    """BNext-T has the channels of ReActNet-A, and so as many binary weights; S has one and a half times as many."""
    with torch.device('meta'):
        net = BNext(arch)
    binary = [m for m in net.modules() if isinstance(m, BinaryConv2d)]
    assert all(m.binary for m in binary) and sum(m.weight.numel() for m in binary) == weights
    found = [m for m in net.modules() if isinstance(m, BNextBlock)]
    assert len(found) == blocks
    assert [block.spatial.attend is not None for block in found] == [i % 2 == 1 for i in range(blocks)]


def test_binary_weights_have_no_factor_and_a_shift_comes_first():
    with torch.device('meta'):
        convs = [m for m in BNext(base_channels=8).modules() if isinstance(m, BinaryConv2d)]
    assert {type(m.weight_quantizer).__name__ for m in convs} == {'BNextWeight'}
    assert {(m.activation_quantizer.width, m.activation_quantizer.shift_start) for m in convs} == {(1.5, 'zero')}


@pytest.mark.parametrize(
    ('options', 'message'),
    [(dict(arch='huge'), "arch='huge' is unknown. Use one of 'tiny'"), (dict(base_channels=4), 'use 8 or more')],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        BNext(**options)
