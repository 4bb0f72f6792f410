"""BiDet's information-bottleneck losses, as a part that a detection head holds."""

from collections.abc import Iterable, Sequence

from mmengine.registry import MODELS
from torch import Tensor, nn

from ...functional import information_regularisation, sparse_object_prior


@MODELS.register_module()
class BiDetLoss(nn.Module):
    r"""Information regularisation and sparse object prior of one head, off until somebody switches them on.

    .. math::
        L = \lambda_R \cdot \frac{1}{K} \sum_k \overline{F_k^2}
        + \lambda_P \cdot \text{mean}\left(-\frac{1}{n} \sum_j \hat p_j \log \hat p_j\right)

    The first is :func:`rebnn_mm.functional.information_regularisation` of what enters the head,
    the second :func:`rebnn_mm.functional.sparse_object_prior` of what leaves it after
    non-maximum suppression. Both are added late in training, by :class:`rebnn_mm.engine.BiDetLossHook`.

    Args:
        regularisation: weight :math:`\lambda_R`.
        prior: weight :math:`\lambda_P`.

    Attributes:
        active: whether the head adds the losses. Not saved with the model: the hook knows when they start.

    Source: BiDet (Wang et al., CVPR 2020); weights and averages are those of the released code.

    Example:
        >>> import torch
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
        """The two weighted losses.

        Args:
            features: what enters the head, any shapes; one tensor at least.
            kept: for each class of each image the scores kept after suppression, shape (K,), and the number of its
                objects.
            prefix: what the names of the losses begin with.

        Returns:
            dict[str, Tensor]: scalars under ``<prefix>information`` and ``<prefix>prior``.
        """
        information = information_regularisation(features).to(features[0].device)
        prior = sparse_object_prior(kept).to(features[0].device)
        return {f'{prefix}information': self.regularisation * information, f'{prefix}prior': self.prior * prior}

    def extra_repr(self) -> str:
        """Weights and state, as printed by ``print(model)``."""
        return f'regularisation={self.regularisation}, prior={self.prior}, active={self.active}'
