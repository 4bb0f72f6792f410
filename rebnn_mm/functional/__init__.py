"""Functions that several methods share, in pure PyTorch: no framework, no state."""

from .channel import centre_channels, channel_dims, channel_mean_abs, per_channel, standardise
from .levels import symmetric_codes, symmetric_round, ternary_codes
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
    zero_outside_one_,
)
