"""Weight and activation quantizers: small registered objects that a binary layer is handed."""

from .adabin import AdaBinActivation, AdaBinWeight
from .base import ActivationQuantizer, MissingHookWarning, Quantizer, WeightQuantizer
from .bibert import BiBERTWeight
from .bidet import BiDetWeight
from .bnn import BNNWeight
from .builder import build_activation_quantizer, build_weight_quantizer
from .dorefa import DoReFaActivation, DoReFaWeight
from .fda import FDASign, FDAWeight
from .mean_scale import BinaryMeanScaleWeight
from .rbnn import RBNNSign, RBNNWeight
from .rebnn import ReBNNWeight
from .recu import ReCUSign, ReCUWeight
from .rsign import BinaryRSign
from .sign import BinaryApproxSign, BinarySign
from .xnor import XNORWeight

__all__ = [
    'ActivationQuantizer',
    'AdaBinActivation',
    'AdaBinWeight',
    'BNNWeight',
    'BiBERTWeight',
    'BiDetWeight',
    'BinaryApproxSign',
    'BinaryMeanScaleWeight',
    'BinaryRSign',
    'BinarySign',
    'DoReFaActivation',
    'DoReFaWeight',
    'FDASign',
    'FDAWeight',
    'MissingHookWarning',
    'Quantizer',
    'RBNNSign',
    'RBNNWeight',
    'ReBNNWeight',
    'ReCUSign',
    'ReCUWeight',
    'WeightQuantizer',
    'XNORWeight',
    'build_activation_quantizer',
    'build_weight_quantizer',
]
