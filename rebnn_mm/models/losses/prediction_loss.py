"""Distillation of an encoder's prediction."""

from typing import TYPE_CHECKING

from mmengine.registry import MODELS
from torch import Tensor
from torch.nn import functional

from .encoder_comparison import EncoderComparisonLoss

if TYPE_CHECKING:
    from ..language.encoder_output import EncoderOutput


@MODELS.register_module()
class PredictionLoss(EncoderComparisonLoss):
    r"""Compares predictions: cross entropy of class probabilities, or the squared error of a regression.

    .. math::
        L = -\frac{1}{B C} \sum_{b=1}^{B} \sum_{c=1}^{C} p_{bc}^T \log p_{bc}^S
        \qquad \text{or, with one label,} \qquad
        L = \frac{1}{B} \sum_b (y_b^S - y_b^T)^2

    p is the softmax of the logits, at temperature one. Unlike a usual cross entropy this one is divided by the number
    of classes C as well.

    Args:
        weight: factor of the loss.

    Raises:
        ValueError: in the forward pass, if the student has other labels than the teacher.

    Source: the released codes of TernaryBERT (Zhang et al. 2020), BiBERT (Qin et al. 2022) and BiT (Liu et al. 2022).

    Example:
        >>> import torch
        >>> from rebnn_mm.models.language.encoder_output import EncoderOutput
        >>> def encoded(logits):
        ...     return EncoderOutput(logits, (), [], torch.ones(1, 2, dtype=torch.bool))
        >>> PredictionLoss()(encoded(torch.zeros(1, 2)), encoded(torch.tensor([[0.0, 3.0]])))
        {'loss_pred': tensor(0.3466)}
    """

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__(weight)

    def forward(self, student: 'EncoderOutput', teacher: 'EncoderOutput') -> dict[str, Tensor]:
        """``loss_pred``."""
        ours, theirs = student.logits.float(), teacher.logits.float()
        self.check_shapes(ours, theirs, 'logits')
        if ours.shape[1] == 1:
            loss = functional.mse_loss(ours, theirs)
        else:
            loss = -(theirs.softmax(dim=1) * ours.log_softmax(dim=1)).mean()
        return {'loss_pred': self.weight * loss}

    def extra_repr(self) -> str:
        """Options, as printed by ``print(model)``."""
        return f'weight={self.weight}'
