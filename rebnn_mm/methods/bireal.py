"""Bi-Real Net (Liu et al. 2018): signs with a magnitude-aware gradient, and a piecewise quadratic estimator.

The weight's gradient is scaled by its mean magnitude, the input's estimator is ApproxSign; both quantizers are shared
with other methods. The shortcut around every convolution is the block style ``'bireal'``.
"""

from ..layers import method_layers

BiRealConv2d, BiRealLinear = method_layers(
    __name__, __doc__, 'BiReal', weight='BinaryMeanScaleWeight', activation='BinaryApproxSign'
)
