"""Distillation of hidden states."""

from typing import TYPE_CHECKING, Any

import torch
from mmengine.registry import MODELS
from torch import Tensor

from .encoder_comparison import EncoderComparisonLoss, direction_distance

if TYPE_CHECKING:
    from ..language.encoder_output import EncoderOutput


@MODELS.register_module()
class HiddenStateLoss(EncoderComparisonLoss):
    r"""Compares the hidden states behind the embeddings and behind every layer.

    .. math::
        L = \sum_{l=0}^{L} \left\| \frac{H_l^S}{\|H_l^S\|} - \frac{H_l^T}{\|H_l^T\|} \right\|
        \qquad \text{or} \qquad
        L = \sum_{l=0}^{L} \overline{(H_l^S - H_l^T)^2}

    The norms are over the whole (B, N, D), the mean over the values of the tokens that count.

    Args:
        form: ``'direction'`` for the first, as in BiBERT's released code, or ``'mse'`` for the second, as in
            TernaryBERT and BiT.
        kwargs: ``weight`` and ``mask_padding``, see :class:`EncoderComparisonLoss`.

    Raises:
        ValueError: ``form`` is neither; in the forward pass, if the student has other layers or another width than
            the teacher.

    Source: Qin et al. 2022 (BiBERT); Zhang et al. 2020 (TernaryBERT).

    Example:
        >>> from rebnn_mm.models.language.encoder_output import EncoderOutput
        >>> def encoded(*states):
        ...     return EncoderOutput(states[0], states, [], torch.tensor([[True, False]]))
        >>> ours, theirs = torch.tensor([[[1.0, 0.0], [9.0, 9.0]]]), torch.tensor([[[0.0, 2.0], [0.0, 0.0]]])
        >>> HiddenStateLoss('mse')(encoded(ours, ours), encoded(theirs, theirs))
        {'loss_hidden': tensor(5.)}
    """

    def __init__(self, form: str = 'direction', **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if form not in ('direction', 'mse'):
            raise ValueError(f"HiddenStateLoss: form={form!r} is unknown; use 'direction' or 'mse'")
        self.form = form

    def forward(self, student: 'EncoderOutput', teacher: 'EncoderOutput') -> dict[str, Tensor]:
        """``loss_hidden``."""
        kept = self.kept(student)[:, :, None]
        terms = []
        for ours, theirs in self.layer_pairs(student.hidden_states, teacher.hidden_states, 'hidden states'):
            self.check_shapes(ours, theirs, 'hidden states')
            if self.form == 'direction':
                terms.append(direction_distance(ours * kept, theirs * kept))
            else:
                squares = (ours - theirs).float().square() * kept
                terms.append(squares.sum() / (kept.sum() * ours.shape[-1]))
        return {'loss_hidden': self.weight * torch.stack(terms).sum()}

    def extra_repr(self) -> str:
        """Options, as printed by ``print(model)``."""
        return f'form={self.form!r}, {super().extra_repr()}'
