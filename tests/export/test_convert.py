import pytest
import torch
from torch import nn

from rebnn_mm.export import PackedConv2d, pack
from rebnn_mm.export.packed_layers import ChannelAffine
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.methods import DoReFaConv2d, ReBNNConv2d, ReBNNLinear
from tests.export.networks import lively


def test_the_model_itself_is_not_changed():
    model = nn.Sequential(ReBNNConv2d(8, 8, 3), nn.BatchNorm2d(8)).train()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    pack(model)
    assert model.training and isinstance(model[0], ReBNNConv2d)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_what_is_packed_and_what_stays_real():
    model = nn.ModuleDict(
        {
            'stem': ReBNNConv2d(3, 8, 3),
            'conv': ReBNNConv2d(8, 8, 3),
            'stage1': BinaryConv2d(8, 8, 3, weight=None),
            'sharp': BinaryConv2d(8, 8, 3, activation=None),
            'neither': BinaryConv2d(8, 8, 3, weight=None, activation=None),
            'downsample': nn.Sequential(nn.Conv2d(8, 8, 1)),
            'fc': ReBNNLinear(8, 4),
        }
    )
    packed = pack(model)
    assert packed.packed == ['conv', 'fc']
    assert packed.real == {
        'stem': 'first layer (3 input channels)',
        'stage1': 'real weights (W32A1)',
        'sharp': 'real inputs (W1A32)',
        'neither': 'no quantizers',
    }
    assert not packed.model.training


@pytest.mark.parametrize(
    ('layer', 'words'),
    [
        (lambda: DoReFaConv2d(8, 8, 3), "DoReFaConv2d '1' has weights of 4 bits"),
        (
            lambda: BinaryConv2d(8, 8, 3, activation=dict(type='BiTStep')),
            "BinaryConv2d '1' has inputs whose two values are not known to the exporter \\(BiTStep\\)",
        ),
    ],
)
def test_what_bits_cannot_hold_is_named(layer, words):
    with pytest.raises(ValueError, match=words) as caught:
        pack(nn.Sequential(nn.ReLU(), layer()))
    assert 'Export a model whose binary layers are 1-bit' in str(caught.value)


def test_a_layer_in_two_places_becomes_one_packed_layer_in_two_places():
    conv, norm = ReBNNConv2d(8, 8, 1), nn.BatchNorm2d(8)
    packed = pack(nn.Sequential(conv, norm, conv, norm)).model
    assert isinstance(packed[0], PackedConv2d) and packed[0] is packed[2]
    assert isinstance(packed[1], ChannelAffine) and packed[1] is packed[3]


def test_the_packed_model_computes_what_the_model_does():
    model = lively(nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), ReBNNConv2d(8, 6, 3, padding=1)))
    x = torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(pack(model).model(x), model(x))


def test_a_norm_with_more_in_it_stays_what_it_is():
    class NormAct(nn.BatchNorm2d):
        """As timm's: the activation is in the norm."""

        def forward(self, x):
            return super().forward(x).relu()

    packed = pack(lively(nn.Sequential(NormAct(8), nn.SyncBatchNorm(8)))).model
    assert isinstance(packed[0], NormAct) and isinstance(packed[1], ChannelAffine)


def test_half_precision_and_training_mode_do_not_matter():
    model = lively(nn.Sequential(ReBNNConv2d(8, 6, 3, padding=1)))
    x = torch.randn(1, 8, 5, 5)
    assert torch.equal(pack(model.train()).model(x), pack(model.eval()).model(x))
    assert pack(model.double()).model[0].scale.dtype == torch.float32
