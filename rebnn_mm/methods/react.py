"""ReActNet (Liu et al. 2020): Bi-Real Net's layer with a learnable threshold per channel in front of the sign.

What else makes ReActNet is the block style ``'react'`` and training in two stages with a teacher.
"""

from ..layers import method_layers

ReActConv2d, ReActLinear = method_layers(
    __name__, __doc__, 'ReAct', weight='BinaryMeanScaleWeight', activation='BinaryRSign'
)
