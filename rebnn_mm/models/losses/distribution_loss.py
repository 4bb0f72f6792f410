"""The distributional loss: a binary network learns the class probabilities of a full-precision one."""

from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.nn import functional

from rebnn_mm.errors import RebnnError

from .comparison import at_least_float32


def distribution_loss(student: Tensor, teacher: Tensor) -> Tensor:
    r"""Cross entropy of the student's class probabilities with the teacher's, without temperature and labels.

    .. math::
        L = -\frac{1}{n} \sum_{i=1}^{n} \sum_c p_c^T(x_i) \log p_c^S(x_i)
        \qquad
        \frac{\partial L}{\partial s_{ic}} = \frac{1}{n} (p_c^S(x_i) - p_c^T(x_i))

    The equation in the source is this minus the teacher's own entropy, which has no gradient. The loss is therefore
    not zero where both agree; it is the teacher's entropy there. Scores s before the softmax are (N, C); the teacher's
    get no gradient. Computed in float32 at least.

    Raises:
        ValueError: the shapes differ.

    Example:
        >>> import torch
        >>> student = torch.zeros(1, 2, requires_grad=True)
        >>> loss = distribution_loss(student, torch.tensor([[0.0, 3.0]]).log())
        >>> loss.backward()
        >>> loss.detach(), student.grad
        (tensor(0.6931), tensor([[ 0.5000, -0.5000]]))

    Source: Liu et al. 2020 (ReActNet), Eq. 6.
    """
    if student.shape != teacher.shape:
        raise RebnnError(
            f'distribution_loss: the student gives scores of shape {tuple(student.shape)}, the teacher of shape '
            f'{tuple(teacher.shape)}; both need the same classes in the same order.'
        )
    probabilities = at_least_float32(teacher).detach().softmax(dim=1)
    return functional.cross_entropy(at_least_float32(student), probabilities)


@MODELS.register_module()
class DistributionLoss(nn.Module):
    """:func:`distribution_loss` times ``loss_weight``, as a registered loss.

    Example:
        >>> import torch
        >>> float(DistributionLoss(loss_weight=2.0)(torch.zeros(4, 10), torch.zeros(4, 10)))
        4.605...
    """

    def __init__(self, loss_weight: float = 1.0) -> None:
        super().__init__()
        self.loss_weight = loss_weight

    def forward(self, student: Tensor, teacher: Tensor) -> Tensor:
        """The weighted loss of scores (N, C)."""
        return self.loss_weight * distribution_loss(student, teacher)

    def extra_repr(self) -> str:
        return f'loss_weight={self.loss_weight}'
