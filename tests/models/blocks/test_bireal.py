import warnings

import pytest
from torch import nn

from rebnn_mm.models import BinaryBiRealBlock


def test_has_no_activation_module_and_no_parameters_beyond_convolutions_and_norms():
    block = BinaryBiRealBlock(4, 8, stride=2, conv_cfg=dict(type='ReBNNConv2d'))
    assert isinstance(block.act1, nn.Identity)
    assert isinstance(block.act2, nn.Identity)
    owners = {name.split('.')[0] for name, _ in block.named_parameters()}
    assert owners == {'conv1', 'bn1', 'conv2', 'bn2', 'downsample'}


def test_warns_that_a_real_block_would_be_linear():
    with pytest.warns(UserWarning, match="conv_cfg=None the block is linear.*block='react'"):
        BinaryBiRealBlock(4, 4)


@pytest.mark.parametrize('conv_cfg', [dict(type='ReBNNConv2d'), dict(type='BinaryConv2d', weight=None)])
def test_does_not_warn_while_the_input_is_binarised(conv_cfg):
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        BinaryBiRealBlock(4, 4, conv_cfg=conv_cfg)
