"""Parts of detectors that build on mmdet; loaded when a config first names one (``rebnn_mm.BinaryRPNHead``)."""

from .bidet_bbox_head import BiDetBBoxHead
from .bidet_roi_head import BiDetRoIHead
from .bidet_rpn_head import BiDetRPNHead
from .bidet_ssd_head import BiDetSSDHead
from .binary_rpn_head import BinaryRPNHead
from .fixed_ssd_head import FixedSSDHead

__all__ = ['BiDetBBoxHead', 'BiDetRPNHead', 'BiDetRoIHead', 'BiDetSSDHead', 'BinaryRPNHead', 'FixedSSDHead']
