"""Binary layers, built from config like the layers they replace."""

from .attention import AttentionParts, EncoderAttention, RealAttention
from .base import BinaryLayer
from .bi_attention import BinaryAttention
from .bidet import BiDetConv2d, BiDetLinear
from .binary_conv import BinaryConv2d
from .binary_embedding import BinaryEmbedding
from .binary_linear import BinaryLinear
from .bireal import BiRealConv2d, BiRealLinear
from .bnn import BNNConv2d, BNNLinear
from .calibration import calibrate_shifts
from .dorefa import DoReFaConv2d, DoReFaLinear
from .fda import FDAConv2d, FDALinear
from .maxout import BinaryMaxout
from .pair import BinaryPair
from .rbnn import RBNNConv2d, RBNNLinear
from .react import ReActConv2d, ReActLinear
from .rebnn_conv import ReBNNConv2d
from .rebnn_linear import ReBNNLinear
from .recu import ReCUConv2d, ReCULinear
from .rprelu import BinaryRPReLU
from .softmax_attention import SoftmaxAttention
from .xnor import XNORConv2d, XNORLinear

__all__ = [
    'AttentionParts',
    'BNNConv2d',
    'BNNLinear',
    'BiDetConv2d',
    'BiDetLinear',
    'BiRealConv2d',
    'BiRealLinear',
    'BinaryAttention',
    'BinaryConv2d',
    'BinaryEmbedding',
    'BinaryLayer',
    'BinaryLinear',
    'BinaryMaxout',
    'BinaryPair',
    'BinaryRPReLU',
    'DoReFaConv2d',
    'DoReFaLinear',
    'EncoderAttention',
    'FDAConv2d',
    'FDALinear',
    'RBNNConv2d',
    'RBNNLinear',
    'ReActConv2d',
    'ReActLinear',
    'ReBNNConv2d',
    'ReBNNLinear',
    'ReCUConv2d',
    'ReCULinear',
    'RealAttention',
    'SoftmaxAttention',
    'XNORConv2d',
    'XNORLinear',
    'calibrate_shifts',
]
