"""From maps to vectors, with a batch norm where the classifier's input should have one."""

from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn


@MODELS.register_module()
class FlattenNeck(BaseModule):
    """Turns maps into vectors, by averaging over them or by laying out all their values.

    Args:
        pool: average over each map first; False keeps every value, as VGG-small does.
        norm_channels: size of the vector, for a batch norm on it, as RBNN, ReCU and AdaBin have it before the
            classifier; None for no norm.

    Shapes: (N, C, H, W), or a tuple of such, to (N, C) with ``pool``, else (N, C * H * W).

    Example:
        >>> import torch
        >>> FlattenNeck()(torch.randn(2, 8, 4, 4)).shape, FlattenNeck(pool=True)(torch.randn(2, 8, 4, 4)).shape
        (torch.Size([2, 128]), torch.Size([2, 8]))
    """

    def __init__(
        self, *, pool: bool = False, norm_channels: int | None = None, init_cfg: dict | list[dict] | None = None
    ) -> None:
        super().__init__(init_cfg)
        self.pool = nn.AdaptiveAvgPool2d(1) if pool else nn.Identity()
        self.norm = nn.Identity() if norm_channels is None else nn.BatchNorm1d(norm_channels)

    def forward(self, x: Tensor | tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
        """Vectors from maps; a tuple gives a tuple."""
        if isinstance(x, tuple):
            return tuple(self.norm(self.pool(map_).flatten(1)) for map_ in x)
        return self.norm(self.pool(x).flatten(1))
