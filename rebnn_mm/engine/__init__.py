"""What carries a method through training: optimizer hooks, the mmengine hooks and the parameter groups."""

from .alpha_start_hook import ReBNNAlphaStartHook
from .bert_adam import BinaryBertAdam
from .bidet_hook import BiDetLossHook
from .binary_hook import BinaryHook
from .compile_hook import BinaryCompileHook
from .flip_recorder import FlipRecorder
from .gamma_growth_hook import ReBNNGammaGrowthHook
from .gamma_share_hook import ReBNNGammaShareHook
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
    'ReBNNAlphaStartHook',
    'ReBNNGammaGrowthHook',
    'ReBNNGammaShareHook',
    'ReBNNHook',
    'ReBNNOptimWrapperConstructor',
    'ResilientGradient',
]
