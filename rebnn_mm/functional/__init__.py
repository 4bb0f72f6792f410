"""The method as pure PyTorch functions: no framework, no state."""

from .channel import channel_dims, channel_mean_abs, per_channel
from .gamma_rule import bounded, flip_count, flip_share, max_gradient
from .reconstruction import reconstruction_gradient, reconstruction_loss
from .scaled_sign import RELEASED_CODE_BIN, scaled_sign, scaled_sign_released, zero_outside_one_
from .sign import sign, sign_approx, sign_ste

__all__ = [
    'RELEASED_CODE_BIN',
    'bounded',
    'channel_dims',
    'channel_mean_abs',
    'flip_count',
    'flip_share',
    'max_gradient',
    'per_channel',
    'reconstruction_gradient',
    'reconstruction_loss',
    'scaled_sign',
    'scaled_sign_released',
    'sign',
    'sign_approx',
    'sign_ste',
    'zero_outside_one_',
]
