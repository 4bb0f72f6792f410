"""BiDet's two losses: what features may tell about the image, and how many objects the scores may claim."""

from collections.abc import Iterable, Sequence

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from .comparison import at_least_float32

_SMALLEST_SUM = 1e-12


def information_regularisation(features: Sequence[Tensor]) -> Tensor:
    r"""Mean square of the features that enter a detection head, averaged over its inputs.

    .. math::
        R = \frac{1}{K} \sum_{k=1}^K \frac{1}{|F_k|} \sum_j F_{kj}^2
        \qquad
        \frac{\partial R}{\partial F_{kj}} = \frac{2 F_{kj}}{K |F_k|}

    BiDet bounds the information between image and features by their distance from a standard normal prior, of which
    this is the part that depends on the mean. Where features come straight from a batch norm it pulls at the norm's
    weight and bias only: the mean square is theirs, whatever comes before. Half precision is summed in float32.

    Source: the released code of BiDet (Wang et al., CVPR 2020).
    """
    means = [at_least_float32(values).square().mean() for values in features if values.numel()]
    return torch.stack(means).mean() if means else torch.zeros(())


def object_entropy(scores: Tensor, objects: int) -> Tensor:
    r"""Entropy of the scores of one class in one image, per object that is there.

    .. math::
        H = -\frac{1}{n} \sum_k \hat p_k \log \hat p_k, \quad \hat p_k = \frac{p_k}{S}, \quad S = \sum_j p_j
        \text{ (constant in the backward)}
        \qquad
        \frac{\partial H}{\partial p_k} = -\frac{1 + \log \hat p_k}{n S}

    Descending it raises the scores that hold more than a share of 1/e and lowers the others, so it leaves a few high
    scores out of many middling ones. p are the scores, (K,), that non-maximum suppression kept; n is at least 1.
    """
    scores = at_least_float32(scores)
    # Both bounds keep gradients finite where every score has underflowed: 0 times infinity would be NaN further back.
    share = scores / scores.detach().sum().clamp_min(_SMALLEST_SUM)
    return -(share * share.clamp_min(torch.finfo(scores.dtype).tiny).log()).sum() / objects


def sparse_object_prior(kept: Iterable[tuple[Tensor, int]]) -> Tensor:
    """Mean :func:`object_entropy` over the classes of all images that claim more objects than there are.

    A class with as many boxes as objects, or fewer, has nothing to drop and does not count; neither does one without
    objects. The released code of BiDet divides by the number of counted classes even where that is 0, which gives NaN;
    here the result is then 0. ``kept`` has, for each class of each image, the scores (K,) that non-maximum suppression
    kept, and how many objects there are.

    Source: BiDet (Wang et al., CVPR 2020), the sparse object prior; the average is that of its released code.
    """
    entropies = [object_entropy(scores, objects) for scores, objects in kept if 0 < objects < len(scores)]
    return torch.stack(entropies).mean() if entropies else torch.zeros(())


@MODELS.register_module()
class BiDetLoss(nn.Module):
    r"""Information regularisation and sparse object prior of one head, off until somebody switches them on.

    .. math::
        L = \lambda_R \cdot \frac{1}{K} \sum_k \overline{F_k^2}
        + \lambda_P \cdot \text{mean}\left(-\frac{1}{n} \sum_j \hat p_j \log \hat p_j\right)

    The first is :func:`information_regularisation` of what enters the head, the second :func:`sparse_object_prior` of
    what leaves it after non-maximum suppression. Both are added late in training, by
    :class:`rebnn_mm.engine.BiDetLossHook`.

    Args:
        regularisation: weight :math:`\lambda_R`.
        prior: weight :math:`\lambda_P`.

    Attributes:
        active: whether the head adds the losses. Not saved with the model: the hook knows when they start.

    Source: BiDet (Wang et al., CVPR 2020); weights and averages are those of the released code.

    Example:
        >>> loss = BiDetLoss(regularisation=0.5, prior=0.01)
        >>> loss.active
        False
        >>> loss([torch.full((1, 4), 2.0)], kept=[(torch.tensor([0.5, 0.5]), 1)])
        {'loss_information': tensor(2.), 'loss_prior': tensor(0.0069)}
    """

    def __init__(self, regularisation: float, prior: float) -> None:
        super().__init__()
        self.regularisation = regularisation
        self.prior = prior
        self.active = False

    def forward(
        self, features: Sequence[Tensor], kept: Iterable[tuple[Tensor, int]], prefix: str = 'loss_'
    ) -> dict[str, Tensor]:
        """The two weighted losses."""
        information = information_regularisation(features).to(features[0].device)
        prior = sparse_object_prior(kept).to(features[0].device)
        return {f'{prefix}information': self.regularisation * information, f'{prefix}prior': self.prior * prior}

    def extra_repr(self) -> str:
        return f'regularisation={self.regularisation}, prior={self.prior}, active={self.active}'
