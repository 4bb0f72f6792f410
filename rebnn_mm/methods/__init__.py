"""The binarization methods, each in one file: its functions, its quantizers, its layers.

:data:`METHODS` lists them. What several share is in :mod:`rebnn_mm.functional`, :mod:`rebnn_mm.quantizers` and
:mod:`rebnn_mm.layers`.
"""

import sys
from typing import NamedTuple

from mmengine.registry import MODELS

from .adabin import AdaBinActivation, AdaBinEDEWeight, AdaBinWeight
from .bibert import BiBERTWeight
from .bidet import BiDetConv2d, BiDetLinear, BiDetWeight
from .binarybert import BinaryPair, BWNWeight
from .biper import BiPerConv2d, BiPerLinear, BiPerSine, BiPerWeight
from .bireal import BiRealConv2d, BiRealLinear
from .bit import BiTSign, BiTStep, BiTWeight
from .bnext import BNextConv2d, BNextLinear, BNextWeight
from .bnn import BNNConv2d, BNNLinear, BNNWeight
from .dorefa import DoReFaActivation, DoReFaConv2d, DoReFaLinear, DoReFaWeight
from .fda import FDAConv2d, FDALinear, FDASign, FDAWeight
from .irnet import IRNetConv2d, IRNetLinear, IRNetSign, IRNetWeight
from .ovsw import OvSWConv2d, OvSWLinear, OvSWSign, OvSWWeight
from .q8bert import Q8BERTActivation, Q8BERTWeight
from .qbert import QBERTWeight
from .rbnn import RBNNConv2d, RBNNLinear, RBNNSign, RBNNWeight
from .react import ReActConv2d, ReActLinear
from .rebnn import ReBNNConv2d, ReBNNLinear, ReBNNWeight
from .recu import ReCUConv2d, ReCULinear, ReCUSign, ReCUWeight
from .reste import ReSTEConv2d, ReSTELinear, ReSTESign, ReSTEWeight
from .siman import SiMaNConv2d, SiMaNLinear, SiMaNSign, SiMaNWeight
from .ternarybert import TernaryBERTActivation, TWNWeight
from .xnor import XNORConv2d, XNORLinear, XNORWeight


class Method(NamedTuple):
    """One method: a summary with its source, and its quantizers and layers by name.

    Example:
        >>> METHODS['bnn'].names
        ('BNNConv2d', 'BNNLinear', 'BNNWeight')
    """

    summary: str
    names: tuple[str, ...]


def _methods() -> dict[str, Method]:
    names: dict[str, list[str]] = {}
    for name, cls in MODELS.module_dict.items():
        package, _, file = cls.__module__.rpartition('.')
        if package == __name__:
            names.setdefault(file, []).append(name)
    docs = {file: sys.modules[f'{__name__}.{file}'].__doc__ or '' for file in sorted(names)}
    return {file: Method(doc.partition('\n')[0], tuple(sorted(names[file]))) for file, doc in docs.items()}


METHODS = _methods()
"""Every method by the name of its file, as registered: ``METHODS['xnor'].summary``, ``METHODS['xnor'].names``."""

__all__ = ['METHODS', 'BinaryPair', 'Method', *(name for method in METHODS.values() for name in method.names)]
