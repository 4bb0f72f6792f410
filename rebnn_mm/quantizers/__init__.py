"""Weight and activation quantizers: small registered objects that a binary layer is handed."""

from .adabin import AdaBinActivation, AdaBinWeight
from .base import ActivationQuantizer, MissingHookWarning, Quantizer, WeightQuantizer
from .bibert import BiBERTWeight
from .bidet import BiDetWeight
from .bit import BiTSign, BiTStep, BiTWeight
from .bnn import BNNWeight
from .builder import build_activation_quantizer, build_weight_quantizer
from .bwn import BWNWeight
from .dorefa import DoReFaActivation, DoReFaWeight
from .fda import FDASign, FDAWeight
from .mean_scale import BinaryMeanScaleWeight
from .q8bert import Q8BERTActivation, Q8BERTWeight
from .qbert import QBERTWeight
from .rbnn import RBNNSign, RBNNWeight
from .rebnn import ReBNNWeight
from .recu import ReCUSign, ReCUWeight
from .rsign import BinaryRSign
from .sign import BinaryApproxSign, BinarySign
from .step import BinaryStep
from .ternarybert import TernaryBERTActivation
from .twn import TWNWeight
from .xnor import XNORWeight

__all__ = [
    'ActivationQuantizer',
    'AdaBinActivation',
    'AdaBinWeight',
    'BNNWeight',
    'BWNWeight',
    'BiBERTWeight',
    'BiDetWeight',
    'BiTSign',
    'BiTStep',
    'BiTWeight',
    'BinaryApproxSign',
    'BinaryMeanScaleWeight',
    'BinaryRSign',
    'BinarySign',
    'BinaryStep',
    'DoReFaActivation',
    'DoReFaWeight',
    'FDASign',
    'FDAWeight',
    'MissingHookWarning',
    'Q8BERTActivation',
    'Q8BERTWeight',
    'QBERTWeight',
    'Quantizer',
    'RBNNSign',
    'RBNNWeight',
    'ReBNNWeight',
    'ReCUSign',
    'ReCUWeight',
    'TWNWeight',
    'TernaryBERTActivation',
    'WeightQuantizer',
    'XNORWeight',
    'build_activation_quantizer',
    'build_weight_quantizer',
]
