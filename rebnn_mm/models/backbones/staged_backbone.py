"""Base of backbones of a stem and stages: which maps they return, and which parts are frozen."""

from collections.abc import Sequence
from typing import ClassVar

from mmengine.model import BaseModule
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from rebnn_mm.errors import RebnnError

from ..shortcuts import Config

# 'BinaryConv2d' reaches its direct subclasses too: mmengine matches a layer's class and its bases by name.
DEFAULT_INIT: list[Config] = [
    dict(type='Kaiming', layer=['Conv2d', 'BinaryConv2d']),
    dict(type='Constant', val=1, layer=['_BatchNorm', 'GroupNorm']),
]


class StagedBackbone(BaseModule):
    """Base of a backbone: a stem, then stages ``layer1``, ``layer2`` and so on.

    A subclass makes the modules of its stem (:attr:`stem_parts`), adds its stages in their order (:meth:`add_stage`)
    and calls :meth:`freeze_stages` at the end of ``__init__``.

    Args:
        num_stages: number of stages.
        out_indices: stages (from 0) whose output is returned.
        frozen_stages: -1 trains everything, 0 freezes the stem, n the stem and the first n stages. Frozen norms stay
            in eval mode.
        norm_eval: keep every BN in eval mode during training. Off by default: a binary network needs the statistics
            of its own activations, not those of the real network its weights may come from.
        init_cfg: initialisation; by default Kaiming for convolutions and one for norms.
    """

    stem_parts: ClassVar[tuple[str, ...]]
    """Names of the modules before the stages, in their order."""

    def __init__(
        self,
        num_stages: int,
        *,
        out_indices: Sequence[int],
        frozen_stages: int = -1,
        norm_eval: bool = False,
        init_cfg: Config | list[Config] | None = None,
    ) -> None:
        super().__init__(init_cfg or DEFAULT_INIT)
        name = type(self).__name__
        if not out_indices or not all(0 <= i < num_stages for i in out_indices):
            raise RebnnError(f'{name}: out_indices={tuple(out_indices)} must name stages from 0 to {num_stages - 1}.')
        if not -1 <= frozen_stages <= num_stages:
            raise RebnnError(f'{name}: frozen_stages={frozen_stages} is not in -1 to {num_stages} (= num_stages).')
        self.out_indices = tuple(out_indices)
        self.frozen_stages = frozen_stages
        self.norm_eval = norm_eval
        self.stages: list[str] = []

    def add_stage(self, stage: nn.Module) -> None:
        """Add the next stage."""
        self.stages.append(f'layer{len(self.stages) + 1}')
        self.add_module(self.stages[-1], stage)

    def forward_stem(self, x: Tensor) -> Tensor:
        """Compute the first stage's input from an image (N, in_channels, H, W)."""
        for name in self.stem_parts:
            x = getattr(self, name)(x)
        return x

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Feature maps of the stages in ``out_indices``, from (N, in_channels, H, W)."""
        x = self.forward_stem(x)
        outs = []
        for i, name in enumerate(self.stages):
            x = getattr(self, name)(x)
            if i in self.out_indices:
                outs.append(x)
        return tuple(outs)

    def freeze_stages(self) -> None:
        """Freeze what ``frozen_stages`` says."""
        if self.frozen_stages < 0:
            return
        for name in (*self.stem_parts, *self.stages[: self.frozen_stages]):
            module = getattr(self, name)
            module.eval()
            module.requires_grad_(False)

    def train(self, mode: bool = True) -> 'StagedBackbone':
        """Switch the mode; frozen stages, and with ``norm_eval`` every BN, stay in eval mode."""
        super().train(mode)
        self.freeze_stages()
        if self.norm_eval:
            freeze_norms(self)
        return self


def freeze_norms(model: nn.Module) -> None:
    """Set every BN to eval mode."""
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.eval()
