"""Keeps what libraries make again each time, though it is always the same."""

import functools
import io
import pickle
from hashlib import sha256
from typing import Any


def read_index_once() -> None:
    """Keep the hundred files that mmengine reads to find a config of mmdet.

    A config of ours then takes 0.03 s of processor time in place of 0.18 (mean of twelve, 2026-11-28).
    """
    from mmengine.config import utils

    utils.load = functools.cache(utils.load)


def fill_onnx_registry_once() -> Any:
    """Keep the thousand functions that torch reads the source of for each export, more than a second long."""
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    ONNXRegistry.from_torchlib = staticmethod(functools.cache(ONNXRegistry.from_torchlib))
    return ONNXRegistry


def trace_once() -> None:
    """Keep the last networks that torch has traced, two seconds each; a test of options exports one several times."""
    import torch

    trace = torch.onnx.export
    kept: dict[str, Any] = {}

    class Contents(pickle.Pickler):
        """Writes a network as its classes, attributes and numbers, which are all that a trace depends on."""

        def reducer_override(self, obj: Any) -> Any:
            if not isinstance(obj, torch.Tensor):
                return NotImplemented
            values = obj.detach().contiguous().view(-1).view(torch.uint8)
            return tuple, ((str(obj.dtype), tuple(obj.shape), type(obj).__name__, values.numpy().tobytes()),)

    def export(*args: Any, **kwargs: Any) -> Any:
        contents = io.BytesIO()
        try:
            Contents(contents).dump((args, kwargs))
        except (AttributeError, TypeError, RuntimeError, pickle.PicklingError):  # it holds a function of a test's own
            return trace(*args, **kwargs)
        key = sha256(contents.getbuffer()).hexdigest()
        kept[key] = kept.pop(key, None) or trace(*args, **kwargs)
        if len(kept) > 8:
            del kept[next(iter(kept))]
        return kept[key]

    torch.onnx.export = export
