"""What carries a method through training: optimizer hooks, the mmengine hooks and the parameter groups."""

from .bidet_hook import BiDetLossHook
from .binary_hook import BinaryHook
from .method_driver import MethodDriver
from .optim_constructor import ReBNNOptimWrapperConstructor
from .rebnn_hook import ReBNNHook
from .resilient_gradient import ResilientGradient

__all__ = [
    'BiDetLossHook',
    'BinaryHook',
    'MethodDriver',
    'ReBNNHook',
    'ReBNNOptimWrapperConstructor',
    'ResilientGradient',
]
