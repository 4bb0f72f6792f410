"""The mmengine optimizer wrapper that trains in bfloat16 on a processor, too."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from mmengine.device import get_device
from mmengine.logging import print_log
from mmengine.optim import OptimWrapper
from mmengine.registry import OPTIM_WRAPPERS
from torch import nn
from torch.utils._pytree import tree_map_only

from rebnn_mm.models.teacher import FixedTeacher
from rebnn_mm.utils.machine import processor_flags


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16; without them it is slower than float32."""
    return not {'avx512_bf16', 'amx_bf16'}.isdisjoint(processor_flags())


def _in_float32(*args: Any) -> Any:
    """The last of a hook's arguments, what a module takes or gives, with the bfloat16 tensors in it as float32."""
    return tree_map_only(torch.Tensor, lambda x: x.float() if x.dtype == torch.bfloat16 else x, args[-1])


def _of_boxes(model: nn.Module) -> tuple[list[nn.Module], list[nn.Module]]:
    """Methods that return boxes and that take them, of a model and of its teacher."""
    held = (part.teacher for part in model.modules() if isinstance(part, FixedTeacher))
    wholes = (model, *(teacher for teacher in held if teacher is not None))
    modules = [module for whole in wholes for module in whole.modules()]
    return [m for m in modules if hasattr(m, 'predict_by_feat')], [m for m in modules if hasattr(m, 'roi_layers')]


@OPTIM_WRAPPERS.register_module()
class Bfloat16OptimWrapper(OptimWrapper):
    """Runs the forward pass under ``torch.autocast`` in bfloat16, on whatever device mmengine trains on.

    mmengine's ``AmpOptimWrapper`` needs a GPU. A processor without AVX512_BF16 takes several times longer with it, and
    a warning says so. bfloat16 has the exponents of float32, so losses are not scaled. Latent weights, their gradients
    and the resilient gradient stay in float32, and so does evaluation.

    Boxes stay in float32: eight bits would place them to two pixels, and mmcv's operators on boxes take none. What
    mmdet's heads give back is cast to float32 (whatever has ``predict_by_feat``), and so is what regions are cut from
    (whatever has ``roi_layers``).

    Example:
        >>> layer = nn.Linear(4, 2)
        >>> wrapper = Bfloat16OptimWrapper(optimizer=torch.optim.SGD(layer.parameters(), lr=0.1))
        >>> with wrapper.optim_context(layer):
        ...     layer(torch.ones(1, 4)).dtype
        torch.bfloat16
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._model: nn.Module | None = None
        if get_device() == 'cpu' and not multiplies_bfloat16():
            print_log(
                'Bfloat16OptimWrapper: this processor has no instructions for bfloat16 (AVX512_BF16 or AMX), so that '
                "training takes several times longer than in float32. Use optim_wrapper.type='OptimWrapper' here.",
                'current',
                logging.WARNING,
            )

    @contextmanager
    def optim_context(self, model: nn.Module) -> Iterator[None]:
        """Around the forward pass: autocast, and no exchange of gradients while they are accumulated."""
        with ExitStack() as stack:
            if self._model is not model:
                self._model, (self._heads, self._extractors) = model, _of_boxes(model)
            for head in self._heads:
                stack.enter_context(head.register_forward_hook(_in_float32))
            for extractor in self._extractors:
                stack.enter_context(extractor.register_forward_pre_hook(_in_float32))
            stack.enter_context(super().optim_context(model))
            stack.enter_context(torch.autocast(get_device(), dtype=torch.bfloat16))
            yield
