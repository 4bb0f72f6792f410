"""Keeps what libraries make anew each time, though it is always the same."""

import functools
import io
import os
import pickle
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from typing import Any

CONFIGS = str(Path(__file__).parents[1] / 'configs')


def read_index_once() -> None:
    """Keep the hundred files that mmengine reads to find a config of mmdet; they take longer than the config."""
    from mmengine.config import utils

    utils.load = functools.cache(utils.load)


def read_configs_once() -> None:
    """Keep this repository's configs; the fourth test of one reads its ten files for the fourth time."""
    from mmengine.config import Config

    read = Config.fromfile
    kept: dict[Any, Config] = {}

    def fromfile(filename: str | Path, *args: Any, **kwargs: Any) -> Config:
        path = os.path.abspath(filename)
        if not path.startswith(CONFIGS):
            return read(filename, *args, **kwargs)
        # A config may name variables of the environment.
        variables = frozenset(item for item in os.environ.items() if item[0] != 'PYTEST_CURRENT_TEST')
        key = str(filename), path, args, frozenset(kwargs.items()), variables
        if key not in kept:
            kept[key] = read(filename, *args, **kwargs)
        return deepcopy(kept[key])

    Config.fromfile = staticmethod(fromfile)


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
