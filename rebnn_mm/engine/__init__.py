"""What carries a method through training: optimizer hooks, the mmengine hooks and the parameter groups."""

from .bidet_hook import BiDetLossHook
from .binary_hook import BinaryHook
from .flip_recorder import FlipRecorder
from .method_driver import MethodDriver
from .optim_constructor import ReBNNOptimWrapperConstructor
from .rebnn_hook import ReBNNHook
from .resilient_gradient import ResilientGradient
from .weight_recorder_hook import BinaryWeightRecorderHook

__all__ = [
    'BiDetLossHook',
    'BinaryHook',
    'BinaryWeightRecorderHook',
    'FlipRecorder',
    'MethodDriver',
    'ReBNNHook',
    'ReBNNOptimWrapperConstructor',
    'ResilientGradient',
]
