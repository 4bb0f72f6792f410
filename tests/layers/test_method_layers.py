import pickle

import pytest
from mmengine.registry import MODELS
from torch import nn

from rebnn_mm.layers import BinaryConv2d, BinaryLinear, method_layers
from rebnn_mm.registry import registered_classes

LAYERS = {**registered_classes(BinaryConv2d), **registered_classes(BinaryLinear)}


@pytest.mark.parametrize('name', [name for name, cls in LAYERS.items() if cls.__module__.startswith('rebnn_mm.')])
def test_every_layer_names_its_torch_layer_as_a_direct_base(name):
    assert (nn.Conv2d if name.endswith('Conv2d') else nn.Linear) in LAYERS[name].__bases__


def test_layers_belong_to_the_file_of_their_method():
    from rebnn_mm.methods import xnor

    conv = xnor.XNORConv2d(8, 8, 3)
    assert (xnor.XNORConv2d.__module__, xnor.XNORLinear.__name__) == ('rebnn_mm.methods.xnor', 'XNORLinear')
    assert type(pickle.loads(pickle.dumps(conv))) is xnor.XNORConv2d is MODELS.get('XNORConv2d')


def test_docstring_is_made_of_that_of_the_file():
    from rebnn_mm.methods import xnor

    assert xnor.XNORConv2d.__doc__.startswith(
        "XNOR-Net's convolution: ``conv_cfg=dict(type='XNORConv2d')``.\n\nSigns "
    )
    assert 'Source: Rastegari et al. 2016 (XNOR-Net).' in xnor.XNORLinear.__doc__


def test_a_file_without_name_and_source_is_refused():
    with pytest.raises(ValueError, match=r"some.file: its docstring must begin like 'XNOR-Net \(Rastegari"):
        method_layers('some.file', 'Signs.', 'Some', weight='BNNWeight', activation='BinarySign')
    assert MODELS.get('SomeConv2d') is None
