"""Detectors and their parts that build on mmdet; loaded when a config first names one (``BinaryRPNHead``)."""

from .anchors import ClampedSSDAnchorGenerator
from .bidet import BiDetBBoxHead, BiDetRoIHead, BiDetRPNHead, BiDetSSDHead
from .heads import BinaryRPNHead, FixedSSDHead, build_binary_towers
from .one_bit_neck import OneBitNeck
from .teacher_student_detector import TeacherStudentDetector
