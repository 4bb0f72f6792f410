"""Parts of detectors that build on mmdet; loaded when a config first names one (``rebnn_mm.BinaryRPNHead``)."""

from .binary_rpn_head import BinaryRPNHead

__all__ = ['BinaryRPNHead']
