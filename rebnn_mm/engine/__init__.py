"""What carries the method through training: optimizer hooks, the mmengine hook and the parameter groups."""

from .optim_constructor import ReBNNOptimWrapperConstructor
from .rebnn_hook import ReBNNHook
from .resilient_gradient import ResilientGradient

__all__ = ['ReBNNHook', 'ReBNNOptimWrapperConstructor', 'ResilientGradient']
