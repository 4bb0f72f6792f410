"""Residual blocks for binary convolutions: the block that all share, and its styles.

A style is a class that says which activation follows an addition, which shift stands before a sign, which
shortcut goes around them, and in what order. Networks find it by name in :data:`rebnn_mm.registry.BLOCKS`.
"""

import warnings
from typing import Any, ClassVar

from mmcv.cnn import build_conv_layer, build_norm_layer
from mmengine.model import BaseModule
from mmengine.registry import MODELS
from torch import Tensor, nn

from rebnn_mm.layers import BinaryConv2d, Maxout, RPReLU, SqueezeExcite
from rebnn_mm.layers.memory import memory_of, run_block
from rebnn_mm.registry import BLOCKS

from ..errors import RebnnError
from .shortcuts import SHORTCUTS, Config, padded_shortcut, pooled_shortcut


class BinaryBasicBlock(BaseModule):
    r"""Two 3x3 convolutions, each with its own shortcut.

    .. math::
        y = a_1(\mathrm{BN}_1(\mathrm{conv}_1(x)) + s(x)) \qquad z = a_2(\mathrm{BN}_2(\mathrm{conv}_2(y)) + y)

    A style says what :math:`a` is (:meth:`build_act`), what :math:`s` is (:attr:`build_shortcut`: the identity where
    the shapes agree, else average pooling, a real 1x1 convolution and a norm) and whether the input of its
    convolutions is shifted before the method's own activation quantizer sees it (:attr:`input_shift`). A network may
    ask the class for each of them. A style with another order overrides :meth:`forward_block`.

    Parameters are named as in torchvision's ``BasicBlock``, so checkpoints of full-precision ResNets fit.

    Args:
        in_channels: channels of the input, shape (N, in_channels, H, W).
        out_channels: channels of the output, shape (N, out_channels, ceil(H / stride), ceil(W / stride)).
        stride: stride of the first convolution.
        dilation: dilation of both convolutions.
        conv_cfg: the 3x3 convolutions; None makes them real.
        norm_cfg: every norm layer of the block.
        with_cp: recompute the block in the backward pass instead of storing its activations.
        downsample: the shortcut where shapes change, a name of :data:`SHORTCUTS`; None for that of the style.
        options: those of the style, handed to :meth:`build_act`.

    Raises:
        ValueError: an unknown ``downsample``.

    Source: Liu et al. 2018, Bi-Real Net, section 3.1.
    """

    input_shift: ClassVar[str | None] = None
    """Start of the shift before each convolution's sign, None for no shift."""

    norm_first: ClassVar[bool] = False
    """Whether each norm comes before its convolution, and the first has the channels of the input."""

    build_shortcut = staticmethod(pooled_shortcut)
    """Makes pooling and projection of the shortcut."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        stride: int = 1,
        dilation: int = 1,
        conv_cfg: Config | None = None,
        norm_cfg: Config = dict(type='BN'),
        with_cp: bool = False,
        downsample: str | None = None,
        init_cfg: Config | list[Config] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(init_cfg)
        if downsample is not None and downsample not in SHORTCUTS:
            raise RebnnError(
                f'{type(self).__name__}: downsample={downsample!r} is unknown; use one of {", ".join(SHORTCUTS)}'
            )
        conv_cfg = self.with_activation(conv_cfg)
        shape = dict(kernel_size=3, padding=dilation, dilation=dilation, bias=False)
        self.with_cp = with_cp
        self.conv1 = build_conv_layer(conv_cfg, in_channels, out_channels, stride=stride, **shape)
        self.bn1 = build_norm_layer(norm_cfg, in_channels if self.norm_first else out_channels)[1]
        self.act1 = self.build_act(out_channels, **options)
        self.conv2 = build_conv_layer(conv_cfg, out_channels, out_channels, stride=1, **shape)
        self.bn2 = build_norm_layer(norm_cfg, out_channels)[1]
        self.act2 = self.build_act(out_channels, **options)
        build_shortcut = self.build_shortcut if downsample is None else SHORTCUTS[downsample]
        self.pool, self.downsample = build_shortcut(in_channels, out_channels, stride, norm_cfg)

    @classmethod
    def with_activation(cls, conv_cfg: Config | None) -> Config | None:
        """Fill in the activation quantizer where ``conv_cfg`` is one of our layers and names none."""
        if conv_cfg is not None and conv_cfg.get('activation', 'default') == 'default':
            layer = MODELS.get(conv_cfg['type']) if isinstance(conv_cfg['type'], str) else conv_cfg['type']
            if isinstance(layer, type) and issubclass(layer, BinaryConv2d):
                return dict(conv_cfg, activation=cls.activation_of(layer))
        return conv_cfg

    @classmethod
    def activation_of(cls, layer: type[BinaryConv2d]) -> Config:
        """Config of the activation quantizer that a method's layer gets in this style."""
        return layer.activation_with(cls.input_shift)

    @classmethod
    def build_act(cls, channels: int) -> nn.Module:
        """The module that follows each addition, on (N, channels, H, W); a style may add options to its arguments."""
        return nn.Identity()

    def forward_block(self, x: Tensor) -> Tensor:
        """The block without checkpointing: (N, in_channels, H, W) to (N, out_channels, H', W')."""
        x = self.act1(self.bn1(self.conv1(x)) + self.downsample(self.pool(x)))
        return self.act2(self.bn2(self.conv2(x)) + x)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block, keeping for the backward pass what its convolutions' ``memory`` says, or only x."""
        memory = 'recompute' if self.with_cp else memory_of(self.conv1, self.conv2)
        return run_block(self.forward_block, x, [self], memory)


@BLOCKS.register_module(name=['BinaryBiRealBlock', 'bireal'])
class BinaryBiRealBlock(BinaryBasicBlock):
    r"""The block of Bi-Real Net and BiDet: sign, convolution, BN, shortcut; twice.

    The sign is the only non-linearity: with ``conv_cfg=None`` the block is linear, which is rarely meant; it warns.

    Example:
        >>> import torch
        >>> BinaryBiRealBlock(8, 8, conv_cfg=dict(type='ReBNNConv2d'))(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 8, 6, 5])

    Source: Liu et al. 2018, Bi-Real Net, section 3.1; also the block of BiDet (SC).
    """

    def __init__(self, *args: Any, conv_cfg: Config | None = None, **kwargs: Any) -> None:
        if conv_cfg is None:
            warnings.warn(
                'BinaryBiRealBlock: with conv_cfg=None the block is linear. For a full-precision network use '
                "block='react', or conv_cfg=dict(type='BinaryConv2d', weight=None) to keep the sign of the input.",
                stacklevel=2,
            )
        super().__init__(*args, conv_cfg=conv_cfg, **kwargs)


@BLOCKS.register_module(name=['BinaryReActBlock', 'react'])
class BinaryReActBlock(BinaryBasicBlock):
    r"""The block of ReActNet: RSign, convolution, BN, shortcut, RPReLU; twice.

    RSign is the activation quantizer inside the binary convolution, with its shift. That starts at zero: the shortcut
    carries values of both signs, so nothing has to be calibrated.

    Example:
        >>> import torch
        >>> BinaryReActBlock(8, 16, stride=2, conv_cfg=dict(type='ReBNNConv2d'))(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])

    Source: Liu et al. 2020, ReActNet, Figure 4; the paper's two-stage setting.
    """

    input_shift: ClassVar[str | None] = 'zero'

    @classmethod
    def build_act(cls, channels: int) -> nn.Module:
        """RPReLU on (N, channels, H, W)."""
        return RPReLU(channels)


@BLOCKS.register_module(name=['BinaryHardtanhBlock', 'hardtanh'])
class BinaryHardtanhBlock(BinaryBasicBlock):
    r"""The block of RBNN and ReCU: sign, convolution, BN, shortcut, Hardtanh; twice.

    Hardtanh keeps what the next sign sees within [-1, 1], where its straight-through gradient is not zero.

    Example:
        >>> import torch
        >>> block = BinaryHardtanhBlock(8, 8, conv_cfg=dict(type='ReCUConv2d'))
        >>> float(block(torch.randn(1, 8, 6, 5)).detach().abs().max()) <= 1
        True

    Source: released networks of Xu et al. 2021 (ReCU), as the paper's one-stage setting, and Lin et al. 2020 (RBNN).
    """

    @classmethod
    def build_act(cls, channels: int) -> nn.Module:
        """Hardtanh; in place it would copy its input for the backward pass."""
        return nn.Hardtanh()


@BLOCKS.register_module(name=['BinaryReLUBlock', 'relu'])
class BinaryReLUBlock(BinaryBasicBlock):
    r"""The block of DoReFa-Net and of full-precision counterparts: quantizer, convolution, BN, shortcut, ReLU; twice.

    For quantizers of non-negative values, and for the full-precision counterpart (``conv_cfg=None``) of a binary
    network. A plain sign after its ReLU would be +1 everywhere; 1-bit layers therefore get a learnable shift, started
    from data.

    Example:
        >>> import torch
        >>> float(BinaryReLUBlock(8, 8)(torch.randn(1, 8, 6, 5)).detach().min()) >= 0
        True

    Source: He et al. 2016, basic block, with Bi-Real Net's one shortcut per convolution.
    """

    @classmethod
    def activation_of(cls, layer: type[BinaryConv2d]) -> Config:
        """Options of the method's layer in any network with ReLUs."""
        return layer.stock_activation()

    @classmethod
    def build_act(cls, channels: int) -> nn.Module:
        """ReLU."""
        return nn.ReLU(inplace=True)


@BLOCKS.register_module(name=['BinaryReSTEBlock', 'reste'])
class BinaryReSTEBlock(BinaryBasicBlock):
    r"""The block of ReSTE: sign, convolution, ReLU, BN, shortcut; twice.

    .. math::
        y = \mathrm{BN}_1(\max(\mathrm{conv}_1(x), 0)) + s(x) \qquad
        z = \mathrm{BN}_2(\max(\mathrm{conv}_2(y), 0)) + y

    The norm after the ReLU centres what is added, so nothing clips the sum and the next sign sees both signs.

    Example:
        >>> import torch
        >>> BinaryReSTEBlock(8, 16, stride=2, conv_cfg=dict(type='ReSTEConv2d'))(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])

    Source: Wu et al. 2023 (ReSTE), released networks with one shortcut per convolution.
    """

    @classmethod
    def build_act(cls, channels: int) -> nn.Module:
        """ReLU; in place it would overwrite what a binary convolution keeps."""
        return nn.ReLU()

    def forward_block(self, x: Tensor) -> Tensor:
        y = self.bn1(self.act1(self.conv1(x))) + self.downsample(self.pool(x))
        return self.bn2(self.act2(self.conv2(y))) + y


@BLOCKS.register_module(name=['BinarySingleReSTEBlock', 'reste_single'])
class BinarySingleReSTEBlock(BinaryReSTEBlock):
    r"""The block of ReSTE's ResNet-18 and ResNet-20, two convolutions under one shortcut.

    .. math::
        z = \mathrm{BN}_2(\max(\mathrm{conv}_2(y), 0)) + s(x) \qquad y = \mathrm{BN}_1(\max(\mathrm{conv}_1(x), 0))

    Example:
        >>> import torch
        >>> BinarySingleReSTEBlock(8, 16, stride=2, conv_cfg=dict(type='ReSTEConv2d'))(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])

    Source: Wu et al. 2023 (ReSTE), released CIFAR-10 networks.
    """

    def forward_block(self, x: Tensor) -> Tensor:
        y = self.bn1(self.act1(self.conv1(x)))
        return self.bn2(self.act2(self.conv2(y))) + self.downsample(self.pool(x))


@BLOCKS.register_module(name=['BinaryAdaBinBlock', 'adabin'])
class BinaryAdaBinBlock(BinaryBasicBlock):
    r"""The block of AdaBin's CIFAR-10 networks: quantizer, convolution, BN, shortcut, Maxout; twice.

    Its shortcuts have no parameters.

    Example:
        >>> import torch
        >>> binary = dict(type='BinaryConv2d', weight='AdaBinWeight', activation='AdaBinActivation')
        >>> BinaryAdaBinBlock(8, 16, stride=2, conv_cfg=binary)(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])

    Source: Tu et al. 2022 (AdaBin), released CIFAR-10 network.
    """

    build_shortcut = staticmethod(padded_shortcut)

    @classmethod
    def build_act(cls, channels: int) -> nn.Module:
        """Maxout on (N, channels, H, W)."""
        return Maxout(channels)


@BLOCKS.register_module(name=['BinarySingleShortcutBlock', 'single'])
class BinarySingleShortcutBlock(BinaryHardtanhBlock):
    r"""The block of BNN, two convolutions under one shortcut, as in an ordinary ResNet.

    .. math::
        y = \mathrm{Hardtanh}(\mathrm{BN}_1(\mathrm{conv}_1(x))) \qquad
        z = \mathrm{Hardtanh}(\mathrm{BN}_2(\mathrm{conv}_2(y)) + s(x))

    Example:
        >>> import torch
        >>> BinarySingleShortcutBlock(8, 16, stride=2, conv_cfg=dict(type='BNNConv2d'))(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])

    Source: He et al. 2016, basic block, with the Hardtanh of Courbariaux et al. 2016 in place of the ReLU.
    """

    def forward_block(self, x: Tensor) -> Tensor:
        y = self.act1(self.bn1(self.conv1(x)))
        return self.act2(self.bn2(self.conv2(y)) + self.downsample(self.pool(x)))


@BLOCKS.register_module(name=['PlainCIFARBlock', 'plain_cifar'])
class PlainCIFARBlock(BinaryReLUBlock, BinarySingleShortcutBlock):
    r"""The full-precision block of the first ResNets for CIFAR, two convolutions under a shortcut without parameters.

    .. math::
        y = \max(\mathrm{BN}_1(\mathrm{conv}_1(x)), 0) \qquad z = \max(\mathrm{BN}_2(\mathrm{conv}_2(y)) + s(x), 0)

    :math:`s` is the identity or :class:`PaddedShortcut`. The reference network of the CIFAR-10 tables; binary networks
    want a shortcut for each convolution.

    Example:
        >>> import torch
        >>> PlainCIFARBlock(8, 16, stride=2)(torch.randn(1, 8, 6, 5)).shape
        torch.Size([1, 16, 3, 3])

    Source: He et al. 2016, section 4.2.
    """

    build_shortcut = staticmethod(padded_shortcut)


@BLOCKS.register_module(name=['BinaryPreActBlock', 'preact'])
class BinaryPreActBlock(BinaryBasicBlock):
    r"""The block of XNOR-Net: BN, sign, convolution; twice, under one shortcut.

    .. math::
        z = \mathrm{conv}_2(\mathrm{BN}_2(\mathrm{conv}_1(\mathrm{BN}_1(x)))) + s(x)

    The norm before it centres what is binarized. The first norm has the channels of the input, so that of a block that
    widens is not filled from a torchvision checkpoint.

    Example:
        >>> import torch
        >>> block = BinaryPreActBlock(8, 16, stride=2, conv_cfg=dict(type='XNORConv2d'))
        >>> block(torch.randn(1, 8, 6, 5)).shape, block.bn1.num_features
        (torch.Size([1, 16, 3, 3]), 8)

    Source: Rastegari et al. 2016 (order of layers); He et al. 2016 (identity mappings).
    """

    norm_first: ClassVar[bool] = True

    def forward_block(self, x: Tensor) -> Tensor:
        y = self.act1(self.conv1(self.bn1(x)))
        return self.act2(self.conv2(self.bn2(y))) + self.downsample(self.pool(x))


@BLOCKS.register_module(name=['RealToBinaryBlock', 'real_to_binary'])
class RealToBinaryBlock(BinaryBasicBlock):
    r"""The block of Real-to-Binary: BN, sign, convolution times a gate, PReLU, shortcut; twice.

    .. math::
        y = a_1(g_1(u) \, \mathrm{conv}_1(u)) + s(x), \; u = \mathrm{BN}_1(x) \qquad
        z = a_2(g_2(v) \, \mathrm{conv}_2(v)) + y, \; v = \mathrm{BN}_2(y)

    The gate g (:class:`rebnn_mm.layers.SqueezeExcite` without biases, an eighth as wide inside) sees the real values
    whose signs are convolved. ``conv_cfg=None`` makes the network of the first training stage, which has a tanh in
    place of each sign.

    Example:
        >>> import torch
        >>> block = RealToBinaryBlock(8, 16, stride=2, conv_cfg=dict(type='BNNConv2d'))
        >>> block(torch.randn(1, 8, 6, 5)).shape, block.gate1.excite.weight.shape
        (torch.Size([1, 16, 3, 3]), torch.Size([16, 1, 1, 1]))

    Source: Martinez et al. 2020 (Real-to-Binary); the order of the layers and the gate's form are Larq Zoo's.
    """

    norm_first: ClassVar[bool] = True

    def __init__(self, in_channels: int, out_channels: int, *, conv_cfg: Config | None = None, **kwargs: Any) -> None:
        super().__init__(in_channels, out_channels, conv_cfg=conv_cfg, **kwargs)
        self.gate1 = SqueezeExcite(in_channels, out_channels=out_channels, bias=False)
        self.gate2 = SqueezeExcite(out_channels, bias=False)
        self.soft_sign = nn.Tanh() if conv_cfg is None else nn.Identity()

    @classmethod
    def build_act(cls, channels: int) -> nn.Module:
        """PReLU with a slope per channel."""
        return nn.PReLU(channels)

    def forward_block(self, x: Tensor) -> Tensor:
        u = self.bn1(x)
        y = self.act1(self.gate1(u) * self.conv1(self.soft_sign(u))) + self.downsample(self.pool(x))
        v = self.bn2(y)
        return self.act2(self.gate2(v) * self.conv2(self.soft_sign(v))) + y
