"""Binary layers, built from config like the layers they replace."""

from .base import BinaryLayer
from .binary_conv import BinaryConv2d
from .binary_linear import BinaryLinear
from .calibration import calibrate_shifts
from .rebnn_conv import ReBNNConv2d
from .rebnn_linear import ReBNNLinear
from .rprelu import BinaryRPReLU

__all__ = [
    'BinaryConv2d',
    'BinaryLayer',
    'BinaryLinear',
    'BinaryRPReLU',
    'ReBNNConv2d',
    'ReBNNLinear',
    'calibrate_shifts',
]
