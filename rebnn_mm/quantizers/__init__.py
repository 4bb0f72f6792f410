"""Weight and activation quantizers: small registered objects that a binary layer is handed.

Here is what they are built on, and those that belong to no single method; a method's own are in
:mod:`rebnn_mm.methods`.
"""

from .base import (
    ActivationQuantizer,
    LearnedScaleWeight,
    MissingHookWarning,
    Quantizer,
    SharpeningQuantizer,
    SignWeight,
    Values,
    WeightQuantizer,
)
from .builder import build_activation_quantizer, build_weight_quantizer, check_bits
from .shared import (
    BinaryApproxSign,
    BinaryMeanScaleWeight,
    BinaryRSign,
    BinarySign,
    BinaryStep,
    BinaryWideSign,
    RoundedWeight,
)
