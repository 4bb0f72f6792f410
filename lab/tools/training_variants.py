"""A 1-bit network, and the same one without what makes it that: what a step of training costs each is compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from mmengine.config import Config, ConfigDict
from mmengine.model import BaseModel
from mmengine.optim import build_optim_wrapper
from mmengine.registry import MODELS
from mmengine.runner import set_random_seed
from torch import nn

from lab.device.cost import count_kept_bytes
from rebnn_mm.engine import MethodDriver, ResilientGradient
from rebnn_mm.layers.base import BinaryLayer

Step = Callable[[Any], None]
OURS = 'as configured'
UNTAUGHT = {
    'rebnn_mm.TeacherStudentClassifier': 'ImageClassifier',
    'rebnn_mm.TeacherStudentTextClassifier': 'rebnn_mm.TextClassifier',
}
"""What a classifier with a teacher is without one."""


class Variant(NamedTuple):
    """One way to train the network: the layer for 1-bit ones (None: the real layer), with or without the rule."""

    layer: str | None
    gamma_rule: bool
    words: str
    memory: str | None = None


VARIANTS = {
    'rebnn': Variant(OURS, True, '1-bit layers'),
    'recompute': Variant(OURS, True, "1-bit layers, memory='recompute'", 'recompute'),
    'sums': Variant(OURS, True, "1-bit layers, memory='sums'", 'sums'),
    'no_gamma': Variant(OURS, False, 'the same layers without the gamma rule'),
    'plain': Variant('BinaryConv2d', False, 'plain straight-through layers'),
    'real': Variant(None, False, 'full-precision layers, ReLU'),
}


def is_binary(conv: Any) -> bool:
    """Whether this is the config of one of our layers."""
    layer = MODELS.get(conv['type']) if isinstance(conv, dict) and isinstance(conv.get('type'), str) else None
    return isinstance(layer, type) and issubclass(layer, BinaryLayer)


def swap_layers(cfg: Any, layer: str | None, memory: str | None = None) -> Any:
    """The model config with ``layer`` at every ``conv_cfg`` of a 1-bit layer, without weights and teacher.

    Example:
        >>> swap_layers(dict(block='react', conv_cfg=dict(type='ReBNNConv2d')), None)
        {'block': 'relu', 'conv_cfg': None}
    """
    if isinstance(cfg, (list, tuple)):
        return type(cfg)(swap_layers(item, layer, memory) for item in cfg)
    if not isinstance(cfg, dict):
        return cfg
    untaught = cfg.get('type') in UNTAUGHT
    taught = ('teacher', 'teacher_checkpoint', 'teacher_loss', 'losses', 'label_weight') if untaught else ()
    swapped = {key: swap_layers(value, layer, memory) for key, value in cfg.items() if key not in taught}
    if untaught:
        swapped['type'] = UNTAUGHT[cfg['type']]
    if isinstance(swapped.get('init_cfg'), dict) and swapped['init_cfg'].get('type') == 'Pretrained':
        swapped['init_cfg'] = None
    for key in ('conv_cfg', 'linear'):
        own: Any = swapped.get(key)
        if is_binary(own) and layer != OURS:
            swapped[key] = None if layer is None else dict(type=layer if key == 'conv_cfg' else 'BinaryLinear')
            if layer is None and 'block' in swapped:
                swapped['block'] = 'relu'
        elif is_binary(own) and memory is not None:
            swapped[key] = dict(own, memory=memory)
    if swapped.get('type') == 'rebnn_mm.TextClassifier':
        swapped['pretrained'] = False
        if layer is None:
            swapped.update(binarize=None, attention=None)
    return swapped


def build_model(cfg: Config, variant: Variant, device: str) -> BaseModel:
    """A variant's network with the weights of seed 0."""
    set_random_seed(0)
    model = MODELS.build(ConfigDict(swap_layers(cfg.model.to_dict(), variant.layer, variant.memory)))
    model.init_weights()
    return model.to(device).train()


def losses_of(model: BaseModel, batch: Any, cfg: Config, device: str) -> dict[str, Any]:
    """A forward pass, under the autocast that the config's AmpOptimWrapper asks for."""
    amp = cfg.optim_wrapper.get('type') == 'AmpOptimWrapper'
    dtype = getattr(torch, cfg.optim_wrapper.get('dtype', 'float16')) if amp else None
    with torch.autocast(torch.device(device).type, dtype, enabled=amp):
        return model._run_forward(model.data_preprocessor(batch, True), mode='loss')


def make_step(cfg: Config, variant: Variant, device: str, compiled: bool) -> Step:
    """Build a variant with its optimizer; the result does one training iteration on a batch."""
    model = build_model(cfg, variant, device)
    optim_cfg = cfg.optim_wrapper.copy()
    if not device.startswith('cuda') and optim_cfg.get('type') == 'AmpOptimWrapper':
        # It refuses a CPU, where only losses need scaling that are float16.
        optim_cfg = ConfigDict({key: value for key, value in optim_cfg.items() if key not in ('dtype', 'loss_scale')})
        optim_cfg.type = 'OptimWrapper'
    optim_wrapper = build_optim_wrapper(model, optim_cfg)
    drive(model, variant, optim_wrapper.optimizer, compiled)
    if compiled:
        compile_backbone(model, device)

    def step(batch: Any) -> None:
        with optim_wrapper.optim_context(model):
            loss, _ = model.parse_losses(losses_of(model, batch, cfg, device))
        optim_wrapper.update_params(loss)

    return step


def compile_backbone(model: BaseModel, device: str) -> None:
    """Compile as CompileHook does; on a GPU into a CUDA graph."""
    model.backbone.compile(mode='reduce-overhead' if device.startswith('cuda') else None)


def drive(model: nn.Module, variant: Variant, optimizer: torch.optim.Optimizer, compiled: bool = False) -> None:
    """Attach the method's rules to an optimizer; on a GPU those of a compiled network are compiled, too."""
    MethodDriver(model).attach(optimizer)
    if variant.gamma_rule:
        resilient = ResilientGradient(model).attach(optimizer)
        if compiled and next(model.parameters()).is_cuda:
            resilient.compile()


def measure_kept_mib(cfg: Config, variant: Variant, batch: Any, device: str, compiled: bool) -> float:
    """Measure what a forward pass keeps for the backward pass, each storage once, without parameters and buffers."""
    model = build_model(cfg, variant, device)
    # Without its rules a layer warns, and a compiled graph would break there.
    drive(model, variant, torch.optim.SGD(model.parameters()))
    if compiled:
        compile_backbone(model, device)
    own = iter((*model.parameters(), *model.buffers()))
    return round(count_kept_bytes(lambda: losses_of(model, batch, cfg, device), own) / 2**20, 1)
