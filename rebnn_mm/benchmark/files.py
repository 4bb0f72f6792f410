"""The files that are compared: made once, kept under names that tell what they were made of."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import rebnn_mm
from rebnn_mm.analysis.config_network import build_network
from rebnn_mm.export.examples import noise
from rebnn_mm.export.exporter import export, write
from rebnn_mm.export.options import PLAIN, Options
from rebnn_mm.export.tasks import task_of
from rebnn_mm.utils.config_file import get_config_dir, read_config

from .int8 import quantize
from .networks import Network, randomise_weights

SEED = 0

PREPROCESS = {'channels': 'rgb', 'mean': [123.675, 116.28, 103.53], 'std': [58.395, 57.12, 57.375]}

VERSIONS = ('torch', 'onnx', 'onnxruntime', 'onnxscript')
"""Packages that affect a file, in addition to our own sources."""

SOURCES = ('functional', 'quantizers', 'layers', 'methods', 'models', 'export', 'deploy', 'benchmark')

Progress = Callable[[str], None]


class ModelFiles:
    """Makes files in a folder, each whole or not at all, unless they are there already."""

    def __init__(self, folder: Path, progress: Progress = lambda step: None) -> None:
        self.folder = folder
        self.progress = progress
        folder.mkdir(parents=True, exist_ok=True)

    def of_network(self, name: str, network: Network, int8: bool = True) -> dict[str, Path]:
        """Files with random weights: ``fp32``, ``packed``, ``fast``; with int8 also ``int8`` and ``mixed``."""
        real = self._export_config(name, 'fp32', network.real, network.size)
        found = {
            'fp32': real,
            'packed': self._export_config(name, 'packed', network.config, network.size),
            'fast': self._export_config(name, 'fast', network.config, network.size, Options(fast=True)),
        }
        if int8:
            found['int8'] = self.int8(name, real, network.size)
            options = Options(fast=True, int8='all')
            found['mixed'] = self._export_config(name, 'mixed', network.config, network.size, options)
        return found

    def int8(self, name: str, real: Path, size: tuple[int, int]) -> Path:
        """The file of a full-precision network, quantized."""
        made_of = [hashlib.sha256(real.read_bytes()).hexdigest(), str(size)]
        return self._make_once(name, 'int8', made_of, lambda: quantize(real, size).SerializeToString())

    def _export_config(
        self, name: str, kind: str, config: str, size: tuple[int, int], options: Options = PLAIN
    ) -> Path:
        path = get_config_dir() / f'{config}.py'
        cfg = read_config(path)

        def make() -> bytes:
            torch.manual_seed(SEED)
            network = randomise_weights(build_network(cfg))
            about: dict[str, Any] = dict(config=path.name, size=size, preprocess=PREPROCESS)
            if task_of(network).name != 'classification':
                # Detections of random weights nearly tie, so that none need be the same in PyTorch.
                about['watch'] = lambda images: ()
            if options.int8:
                about['calibration'] = noise(PREPROCESS, size)
            return export(network, options, **about).data

        return self._make_once(name, kind, [repr(cfg.model), str(size), str(options)], make)

    def _make_once(self, name: str, kind: str, made_of: list[str], make: Callable[[], bytes]) -> Path:
        versions = [f'{package} {importlib.metadata.version(package)}' for package in VERSIONS]
        key = hashlib.sha256('\n'.join([*made_of, *versions, _sources()]).encode()).hexdigest()[:12]
        path = self.folder / f'{name}-{kind}-{key}.onnx'
        if not path.is_file():
            self.progress(f'making {path}')
            write(make(), path)
        return path


@functools.cache
def _sources() -> str:
    """A digest of the Python code that may change what is exported."""
    root = Path(rebnn_mm.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for folder in SOURCES for path in (root / folder).rglob('*.py')):
        digest.update(f'{path.relative_to(root)}\n'.encode() + path.read_bytes())
    return digest.hexdigest()
