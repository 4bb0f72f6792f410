"""Binary layers, built from config like the layers they replace; a method's own are in :mod:`rebnn_mm.methods`."""

from .activations import Maxout, RPReLU, SqueezeExcite
from .attention import AttentionParts, BinaryAttention, EncoderAttention, SoftmaxAttention
from .base import BinaryLayer
from .binary_conv import BinaryConv2d
from .binary_embedding import BinaryEmbedding
from .binary_linear import BinaryLinear
from .calibration import calibrate_shifts
