"""Residual block styles, one per file, looked up through :data:`rebnn_mm.registry.BLOCKS`."""

from .base import BinaryBasicBlock
from .bireal import BinaryBiRealBlock
from .react import BinaryReActBlock
from .stage import build_stage

__all__ = ['BinaryBasicBlock', 'BinaryBiRealBlock', 'BinaryReActBlock', 'build_stage']
