"""Weight and activation quantizers: small registered objects that a binary layer is handed."""

from .base import ActivationQuantizer, WeightQuantizer
from .builder import build_activation_quantizer, build_weight_quantizer
from .mean_scale import BinaryMeanScaleWeight
from .rebnn import ReBNNWeight
from .rsign import BinaryRSign
from .sign import BinaryApproxSign, BinarySign

__all__ = [
    'ActivationQuantizer',
    'BinaryApproxSign',
    'BinaryMeanScaleWeight',
    'BinaryRSign',
    'BinarySign',
    'ReBNNWeight',
    'WeightQuantizer',
    'build_activation_quantizer',
    'build_weight_quantizer',
]
