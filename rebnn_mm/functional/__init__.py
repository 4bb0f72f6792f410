"""Functions that several methods share, in pure PyTorch: no framework, no state."""

from .channel import (
    centre_channels,
    channel_dims,
    channel_mean_abs,
    per_channel,
    per_channel_factor,
    standardise,
)
from .levels import symmetric_codes, symmetric_round, ternary_codes
from .scaled_sign import tensor_sign, tensor_sign_codes, zero_outside_one, zero_outside_one_
from .sign import (
    is_pair,
    sharpness_at,
    sign,
    sign_approx,
    sign_identity,
    sign_ste,
    sign_tanh,
    step_ste,
    straight_through,
)
