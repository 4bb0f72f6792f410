import pytest
import torch
from torch import nn

from rebnn_mm.models import BinaryBasicBlock, BinaryReActBlock
from rebnn_mm.models.blocks import build_stage
from rebnn_mm.registry import BLOCKS

BINARY = dict(type='ReBNNConv2d')


def test_first_block_changes_channels_and_resolution():
    stage = build_stage('react', 4, 8, 3, stride=2, conv_cfg=BINARY)
    assert [(b.conv1.in_channels, b.conv1.stride) for b in stage] == [(4, (2, 2)), (8, (1, 1)), (8, (1, 1))]
    assert stage(torch.randn(1, 4, 6, 6)).shape == (1, 8, 3, 3)


@pytest.mark.parametrize('block', ['react', 'BinaryReActBlock', dict(type='react'), dict(type='BinaryReActBlock')])
def test_every_spelling_of_a_style_gives_the_same_class(block):
    assert type(build_stage(block, 4, 4, 1, stride=1, conv_cfg=BINARY)[0]) is BinaryReActBlock


def test_a_style_registered_elsewhere_is_found_with_its_own_options():
    class HardtanhBlock(BinaryBasicBlock):
        def __init__(self, *args, bound=1.0, **kwargs):
            self.bound = bound
            super().__init__(*args, **kwargs)

        def build_act(self, channels):
            return nn.Hardtanh(-self.bound, self.bound)

    BLOCKS.register_module(name='HardtanhBlockOfThisTest', module=HardtanhBlock)
    try:
        stage = build_stage(
            dict(type='HardtanhBlockOfThisTest', bound=0.5), 4, 4, 1, stride=1, conv_cfg=dict(type='ReBNNConv2d')
        )
    finally:
        BLOCKS.module_dict.pop('HardtanhBlockOfThisTest')
    assert stage(torch.randn(2, 4, 5, 5)).abs().max() == 0.5


def test_unknown_style_lists_the_known_ones():
    with pytest.raises(
        KeyError,
        match=r"block='reacct' is no registered block style.*'bireal', 'hardtanh', .*'react', 'relu', 'single'",
    ):
        build_stage('reacct', 4, 4, 1, stride=1)
