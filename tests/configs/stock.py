"""Takes one training step of a config of mmdet or mmpretrain on samples made here."""

from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.runner import Runner
from torch import nn

from lab.tools.stock_models import step_runner
from rebnn_mm.layers.base import BinaryLayer


def binary_layers(model: nn.Module) -> dict[str, BinaryLayer]:
    return {name: m for name, m in model.named_modules() if isinstance(m, BinaryLayer) and m.binary}


class Watch:
    """What each binary layer received in the last step: its gradient, and the share of its input above the mean."""

    def __init__(self, model: nn.Module) -> None:
        self.gradient: dict[str, float] = {}
        self.above: dict[str, float] = {}
        for name, layer in binary_layers(model).items():
            layer.activation_quantizer.register_forward_hook(partial(self._input, name))
            if layer.weight.requires_grad:
                layer.weight.register_post_accumulate_grad_hook(partial(self._gradient, name))

    def _input(self, name: str, module: nn.Module, args: tuple[Any, ...], codes: torch.Tensor) -> None:
        self.above[name] = (codes > codes.float().mean()).float().mean().item()

    def _gradient(self, name: str, weight: nn.Parameter) -> None:
        self.gradient[name] = weight.grad.abs().sum().item()


def separate(batch: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """A batch as the list of samples it was made of."""
    return [dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True)]


def train_one_step(cfg: Config, samples: list[Any], folder: Path) -> tuple[Runner, Watch]:
    """One iteration on the given samples with the config's own model, optimizer, hook and constructor."""
    runner = step_runner(cfg, samples, folder)
    watch = Watch(runner.model)
    runner.train()
    return runner, watch
