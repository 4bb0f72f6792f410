"""The residual block with one shortcut per convolution that the 1-bit ResNets share."""

from typing import Any, ClassVar

from mmcv.cnn import build_conv_layer, build_norm_layer
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from rebnn_mm.layers import BinaryConv2d

from .shortcut import build_shortcut

Config = dict[str, Any]


class BinaryBasicBlock(BaseModule):
    r"""Two 3x3 convolutions, each with its own shortcut.

    .. math::
        y = a_1(\mathrm{BN}_1(\mathrm{conv}_1(x)) + s(x)) \qquad z = a_2(\mathrm{BN}_2(\mathrm{conv}_2(y)) + y)

    :math:`s` is the identity where the shapes agree, else average pooling, a real 1x1 convolution and a norm. A block
    style says what :math:`a` is (:meth:`build_act`) and whether the input of its convolutions is shifted before the
    method's own activation quantizer sees it (:attr:`input_shift`); a style with another order overrides
    :meth:`forward_block`.

    Parameters are named as in torchvision's ``BasicBlock``, so checkpoints of real-valued ResNets fit.

    Args:
        in_channels: channels of the input, shape (N, in_channels, H, W).
        out_channels: channels of the output, shape (N, out_channels, ceil(H / stride), ceil(W / stride)).
        stride: stride of the first convolution.
        dilation: dilation of both convolutions.
        conv_cfg: the 3x3 convolutions; None makes them real.
        norm_cfg: every norm layer of the block.
        with_cp: recompute the block in the backward pass instead of storing its activations. Running statistics of
            BN are then updated twice per step, as in mmdet.
        init_cfg: initialisation, see mmengine.

    Source: Liu et al. 2018, Bi-Real Net, section 3.1.
    """

    input_shift: ClassVar[str | None] = None
    """Start of the shift in front of each convolution's sign, None for no shift."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        conv_cfg: Config | None = None,
        norm_cfg: Config | None = None,
        with_cp: bool = False,
        init_cfg: Config | list[Config] | None = None,
    ) -> None:
        super().__init__(init_cfg)
        norm_cfg = norm_cfg or dict(type='BN')
        conv_cfg = self.with_activation(conv_cfg)
        shape = dict(kernel_size=3, padding=dilation, dilation=dilation, bias=False)
        self.with_cp = with_cp
        self.conv1 = build_conv_layer(conv_cfg, in_channels, out_channels, stride=stride, **shape)
        self.bn1 = build_norm_layer(norm_cfg, out_channels)[1]
        self.act1 = self.build_act(out_channels)
        self.conv2 = build_conv_layer(conv_cfg, out_channels, out_channels, stride=1, **shape)
        self.bn2 = build_norm_layer(norm_cfg, out_channels)[1]
        self.act2 = self.build_act(out_channels)
        self.pool, self.downsample = build_shortcut(in_channels, out_channels, stride, norm_cfg)

    def with_activation(self, conv_cfg: Config | None) -> Config | None:
        """Fill in the activation quantizer where ``conv_cfg`` is one of our layers and names none."""
        if conv_cfg is None or conv_cfg.get('activation', 'default') != 'default':
            return conv_cfg
        layer = MODELS.get(conv_cfg['type']) if isinstance(conv_cfg['type'], str) else conv_cfg['type']
        if isinstance(layer, type) and issubclass(layer, BinaryConv2d):
            return dict(conv_cfg, activation=self.activation_of(layer))
        return conv_cfg

    def activation_of(self, layer: type[BinaryConv2d]) -> Config:
        """Config of the activation quantizer that a method's layer gets in this style."""
        return layer.activation_with(self.input_shift)

    def build_act(self, channels: int) -> nn.Module:
        """The module that follows each addition, on (N, channels, H, W)."""
        return nn.Identity()

    def forward_block(self, x: Tensor) -> Tensor:
        """The block without checkpointing: (N, in_channels, H, W) to (N, out_channels, H', W')."""
        x = self.act1(self.bn1(self.conv1(x)) + self.downsample(self.pool(x)))
        return self.act2(self.bn2(self.conv2(x)) + x)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block, recomputing it in the backward pass if ``with_cp``."""
        if self.with_cp and x.requires_grad:
            return checkpoint(self.forward_block, x, use_reentrant=False)
        return self.forward_block(x)
