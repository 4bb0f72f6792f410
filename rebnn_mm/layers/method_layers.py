"""Makes the two layers of a method."""

import re
from typing import Any

from mmengine.registry import MODELS
from torch import nn

from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear


def method_layers(
    module: str, doc: str | None, name: str, *, weight: str, activation: str, pad_value: int = 0
) -> tuple[type[BinaryConv2d], type[BinaryLinear]]:
    """Make and register a method's convolution and linear layer: the binary ones with the method's quantizers.

    ``nn.Conv2d`` and ``nn.Linear`` are direct bases of theirs, because mmengine's ``init_cfg`` (``layer='Conv2d'``)
    looks at no others. A method whose layers have options of their own writes the two classes out, as ReBNN does.

    Args:
        module: ``__name__`` of the method's file.
        doc: its ``__doc__``, which begins with the method's name and, in parentheses, its source; None where Python
            leaves docstrings out.
        name: what the names of both classes begin with.
        weight: registered name of the weight quantizer.
        activation: registered name of the activation quantizer.
        pad_value: what the convolution pads with where its config says nothing.

    Raises:
        ValueError: ``doc`` begins otherwise.

    Example:
        >>> doc = 'Sample (Nobody 2000): plain signs.'
        >>> conv, linear = method_layers(__name__, doc, 'Sample', weight='BNNWeight', activation='BinarySign')
        >>> conv.__doc__.partition('.')[0], linear.__doc__.partition(',')[0]
        ("Sample's convolution: ``conv_cfg=dict(type='SampleConv2d')``", "Sample's linear layer")
        >>> removed = [MODELS.module_dict.pop(cls.__name__) for cls in (conv, linear)]
    """
    conv_doc, linear_doc = _docstrings(module, doc, name, weight, activation, pad_value) if doc else (None, None)
    own = {'__module__': module, 'method_weight': weight, 'method_activation': activation}
    conv: Any = type(
        f'{name}Conv2d', (BinaryConv2d, nn.Conv2d), {**own, '__doc__': conv_doc, 'method_pad_value': pad_value}
    )
    linear: Any = type(f'{name}Linear', (BinaryLinear, nn.Linear), {**own, '__doc__': linear_doc})
    for cls in (conv, linear):
        MODELS.register_module(module=cls)
    return conv, linear


def _docstrings(module: str, doc: str, name: str, weight: str, activation: str, pad_value: int) -> tuple[str, str]:
    found = re.match(r'(.+?) \((.+?)\): (.+)', doc, flags=re.DOTALL)
    if found is None:
        raise ValueError(f"{module}: its docstring must begin like 'XNOR-Net (Rastegari et al. 2016): scaled signs'.")
    title, source, text = found.groups()
    conv = f"""{title}'s convolution: ``conv_cfg=dict(type='{name}Conv2d')``.

{text[0].upper()}{text[1:].strip()}

Source: {source} ({title}).

Example:
    >>> conv = {name}Conv2d(16, 32, 3, bias=False)
    >>> type(conv.weight_quantizer).__name__, type(conv.activation_quantizer).__name__, conv.pad_value
    ('{weight}', '{activation}', {pad_value})
"""
    linear = f"""{title}'s linear layer, with the quantizers of :class:`{name}Conv2d`.

Source: {source} ({title}).

Example:
    >>> layer = {name}Linear(16, 4)
    >>> type(layer.weight_quantizer).__name__, type(layer.activation_quantizer).__name__
    ('{weight}', '{activation}')
"""
    return conv, linear
