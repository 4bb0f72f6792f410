"""What several methods share, as pure PyTorch functions: no framework, no state."""

from .channel import (
    channel_centred,
    channel_dims,
    channel_mean_abs,
    per_channel,
    per_channel_factor,
    standardised,
    weight_dims,
)
from .levels import symmetric_codes, symmetric_round, ternary_codes
from .resilient import (
    bounded,
    flip_count,
    flip_share,
    limited,
    max_gradient,
    reconstruction_gradient,
    reconstruction_loss,
    reconstruction_residual,
)
from .scaled_sign import scaled_sign, tensor_sign, tensor_sign_codes, zero_outside_one_
from .sign import (
    checked_sharpness,
    sharpness_at,
    sign,
    sign_approx,
    sign_identity,
    sign_ste,
    sign_tanh,
    sign_within,
    step_ste,
)

__all__ = [
    'bounded',
    'channel_centred',
    'channel_dims',
    'channel_mean_abs',
    'checked_sharpness',
    'flip_count',
    'flip_share',
    'limited',
    'max_gradient',
    'per_channel',
    'per_channel_factor',
    'reconstruction_gradient',
    'reconstruction_loss',
    'reconstruction_residual',
    'scaled_sign',
    'sharpness_at',
    'sign',
    'sign_approx',
    'sign_identity',
    'sign_ste',
    'sign_tanh',
    'sign_within',
    'standardised',
    'step_ste',
    'symmetric_codes',
    'symmetric_round',
    'tensor_sign',
    'tensor_sign_codes',
    'ternary_codes',
    'weight_dims',
    'zero_outside_one_',
]
