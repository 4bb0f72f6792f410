"""What carries a method through training: optimizer hooks, the mmengine hooks and the parameter groups."""

from .bert_adam import BinaryBertAdam
from .bidet_hook import BiDetLossHook
from .binary_hook import BinaryHook
from .compile_hook import BinaryCompileHook
from .flip_recorder import FlipRecorder
from .iter_seed_hook import BinaryIterSeedHook
from .method_driver import MethodDriver
from .optim_constructor import ReBNNOptimWrapperConstructor
from .rebnn_hook import ReBNNHook
from .resilient_gradient import ResilientGradient
from .save_pretrained_hook import BinarySavePretrainedHook
from .warmup_linear import BinaryWarmupLinearLR
from .weight_recorder_hook import BinaryWeightRecorderHook

__all__ = [
    'BiDetLossHook',
    'BinaryBertAdam',
    'BinaryCompileHook',
    'BinaryHook',
    'BinaryIterSeedHook',
    'BinarySavePretrainedHook',
    'BinaryWarmupLinearLR',
    'BinaryWeightRecorderHook',
    'FlipRecorder',
    'MethodDriver',
    'ReBNNHook',
    'ReBNNOptimWrapperConstructor',
    'ResilientGradient',
]
