"""Box locations as a normal distribution: BiDet's head predicts a mean and a log variance for each coordinate."""

import torch
from torch import Tensor


def sampled_location(prediction: Tensor, dim: int, sigma: float) -> Tensor:
    r"""Draw locations around the predicted means.

    .. math::
        l = \mu + s \, \sigma \epsilon, \quad \sigma = e^{v / 2}, \quad \epsilon \sim N(0, 1)
        \qquad
        \frac{\partial l}{\partial \mu} = 1, \quad \frac{\partial l}{\partial v} = \frac{l - \mu}{2}

    Args:
        prediction: means :math:`\mu` in the first half of ``dim``, log variances v in the second.
        dim: the dimension that holds both.
        sigma: the factor s on the deviation; 0 gives the mean, without drawing a random number.

    Returns:
        Tensor: the prediction's shape with ``dim`` halved.

    Source: BiDet (Wang et al., CVPR 2020); s is 0.001 in the released Faster R-CNN.

    Example:
        >>> sampled_location(torch.tensor([[1., 2., 0., 0.]]), dim=1, sigma=0.0)
        tensor([[1., 2.]])
    """
    mean, log_variance = prediction.chunk(2, dim)
    if sigma == 0:
        return mean
    return mean + sigma * (0.5 * log_variance).exp() * torch.randn_like(mean)
