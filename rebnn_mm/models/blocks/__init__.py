"""Residual block styles, one per file, looked up through :data:`rebnn_mm.registry.BLOCKS`."""

from .adabin import BinaryAdaBinBlock
from .base import BinaryBasicBlock
from .bireal import BinaryBiRealBlock
from .hardtanh import BinaryHardtanhBlock
from .padded_shortcut import PaddedShortcut
from .plain_cifar import PlainCIFARBlock
from .preact import BinaryPreActBlock
from .react import BinaryReActBlock
from .relu import BinaryReLUBlock
from .single import BinarySingleShortcutBlock
from .stage import build_stage
from .unit import BinaryUnit

__all__ = [
    'BinaryAdaBinBlock',
    'BinaryBasicBlock',
    'BinaryBiRealBlock',
    'BinaryHardtanhBlock',
    'BinaryPreActBlock',
    'BinaryReActBlock',
    'BinaryReLUBlock',
    'BinarySingleShortcutBlock',
    'BinaryUnit',
    'PaddedShortcut',
    'PlainCIFARBlock',
    'build_stage',
]
