"""The method as pure PyTorch functions: no framework, no state."""

from .centred_sign import centred_sign
from .channel import channel_centred, channel_dims, channel_mean_abs, per_channel
from .elastic import elastic_levels, elastic_sign
from .fourier import fourier_terms, noise_factor, sign_fourier
from .gamma_rule import bounded, flip_count, flip_share, limited, max_gradient
from .information_bottleneck import information_regularisation, object_entropy, sparse_object_prior
from .location import sampled_location
from .reconstruction import reconstruction_gradient, reconstruction_loss, reconstruction_residual
from .recu import laplace_standardised, rectified_sign, recu_tau
from .rotation import random_rotation, refined_rotation, rotated, rotation_sides, standardised
from .scaled_sign import RELEASED_CODE_BIN, scaled_sign, scaled_sign_released, zero_outside_one_
from .sign import sign, sign_approx, sign_identity, sign_ste
from .step import step_ste
from .symmetric import grouped_round, symmetric_codes, symmetric_round
from .tensor_sign import tensor_sign, tensor_sign_codes
from .ternary import split_ternary, ternary_codes, ternary_weight, weight_dims
from .triangle import sign_triangle, triangle_sharpness
from .uniform import dorefa_unit_weight, uniform_levels
from .xnor import centred_and_clamped_, xnor_weight

__all__ = [
    'RELEASED_CODE_BIN',
    'bounded',
    'centred_and_clamped_',
    'centred_sign',
    'channel_centred',
    'channel_dims',
    'channel_mean_abs',
    'dorefa_unit_weight',
    'elastic_levels',
    'elastic_sign',
    'flip_count',
    'flip_share',
    'fourier_terms',
    'grouped_round',
    'information_regularisation',
    'laplace_standardised',
    'limited',
    'max_gradient',
    'noise_factor',
    'object_entropy',
    'per_channel',
    'random_rotation',
    'reconstruction_gradient',
    'reconstruction_loss',
    'reconstruction_residual',
    'rectified_sign',
    'recu_tau',
    'refined_rotation',
    'rotated',
    'rotation_sides',
    'sampled_location',
    'scaled_sign',
    'scaled_sign_released',
    'sign',
    'sign_approx',
    'sign_fourier',
    'sign_identity',
    'sign_ste',
    'sign_triangle',
    'sparse_object_prior',
    'split_ternary',
    'standardised',
    'step_ste',
    'symmetric_codes',
    'symmetric_round',
    'tensor_sign',
    'tensor_sign_codes',
    'ternary_codes',
    'ternary_weight',
    'triangle_sharpness',
    'uniform_levels',
    'weight_dims',
    'xnor_weight',
    'zero_outside_one_',
]
