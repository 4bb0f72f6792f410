import pytest
import torch
from mmengine.registry import MODELS
from torch import nn

from rebnn_mm.layers import BinaryLinear
from rebnn_mm.methods import ReBNNLinear
from tests.tolerances import FLOAT32_ROUNDING

pytestmark = pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')


@pytest.mark.parametrize('kind', [BinaryLinear, ReBNNLinear])
@pytest.mark.parametrize('bias', [True, False])
@pytest.mark.parametrize('shape', [(16,), (3, 16), (2, 5, 16)])
def test_equals_linear_on_binary_values(kind, bias, shape):
    torch.manual_seed(0)
    layer = kind(16, 4, bias=bias, activation='BinarySign')
    plain = nn.Linear(16, 4, bias=bias)
    scale = layer.weight.detach().abs().mean(dim=1, keepdim=True)
    plain.weight.data = scale * torch.where(layer.weight.detach() < 0, -1.0, 1.0)
    if bias:
        plain.bias.data = layer.bias.data
    x = torch.randn(shape)
    expected = plain(torch.where(x < 0, -1.0, 1.0))
    for mode in (True, False):
        torch.testing.assert_close(layer.train(mode)(x), expected, atol=4 * FLOAT32_ROUNDING, rtol=0)


def test_registered_and_with_its_attributes():
    layer = MODELS.build({'type': 'ReBNNLinear', 'in_features': 8, 'out_features': 4, 'gamma': 1e-4})
    assert layer.alpha.shape == layer.gamma.shape == (4,)
    assert list(layer.state_dict()) == [
        'weight',
        'bias',
        'weight_quantizer.alpha',
        'weight_quantizer.gamma',
        'activation_quantizer.shift',
    ]


def test_keep_real():
    net = nn.Sequential(ReBNNLinear(8, 8, keep_real=['1']), ReBNNLinear(8, 4, keep_real=['1']))
    assert net[0].binary and not net[1].binary
    x = torch.randn(2, 8)
    assert torch.equal(net[1](x), nn.functional.linear(x, net[1].weight, net[1].bias))


def test_wrong_dtype_is_refused():
    with pytest.raises(ValueError, match='a sign needs a real number'):
        BinaryLinear(4, 4, dtype=torch.complex64)


@pytest.mark.parametrize('mode', ['training', 'evaluation'])
@pytest.mark.parametrize('dtype', [torch.uint8, torch.int64, torch.bool])
def test_an_input_of_integers_is_refused(dtype, mode):
    layer = BinaryLinear(4, 4, activation='BinarySign').train(mode == 'training')
    with pytest.raises(ValueError, match=rf'input is {dtype}.*x.float\(\)'):
        layer(torch.ones(2, 4, dtype=dtype))


@pytest.mark.parametrize('mode', ['training', 'evaluation'])
@pytest.mark.parametrize('dtype', [torch.bfloat16, torch.float16])
def test_autocast_gives_its_type_whatever_the_scale_has(dtype, mode):
    layer = ReBNNLinear(16, 4).train(mode == 'training')
    x = torch.randn(3, 16)
    with torch.no_grad(), torch.autocast('cpu', dtype):
        assert layer(x).dtype == layer(x.to(dtype)).dtype == dtype
