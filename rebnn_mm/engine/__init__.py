"""Training of a method: optimizer hooks, the mmengine hooks and the parameter groups."""

from .bert_optimization import BertAdam, WarmupLinearLR
from .bfloat16_optim_wrapper import Bfloat16OptimWrapper
from .bidet_hook import BiDetLossHook
from .binary_hook import BinaryHook
from .compile_hook import CompileHook
from .flip_recorder import FlipRecorder
from .freezing_hook import FreezingHook
from .gradient_share_hook import GradientShareHook
from .iter_seed_hook import IterSeedHook
from .latent_penalty_hooks import DampeningHook, UnitMagnitudeHook
from .loss_check_hook import LossCheckHook
from .method_driver import MethodDriver
from .optim_constructor import BinaryOptimWrapperConstructor
from .rebnn_hook import ReBNNHook
from .resilient_gradient import ResilientGradient
from .save_pretrained_hook import SavePretrainedHook
from .transition_rate_hook import TransitionRateHook
from .weight_recorder_hook import BinaryWeightRecorderHook
