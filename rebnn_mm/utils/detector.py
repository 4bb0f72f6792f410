"""Loads a detector for one image, and checks both first."""

from __future__ import annotations

import io
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from mmengine.config import Config
from mmengine.runner import CheckpointLoader

from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.checkpoint import check_checkpoint, check_checkpoint_file
from rebnn_mm.utils.command_line import check_sections
from rebnn_mm.utils.config_file import read_config
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.console import quiet
from rebnn_mm.utils.data_files import leaf_datasets


def check_input(image: str | Path, config: str | None, checkpoint: str) -> None:
    """Check that the files of a detection are there and what they should be."""
    if not Path(image).is_file():
        raise RebnnError(f'no image at {image}.')
    if config is not None:
        _refuse_classifier(read_config(config), config)
    check_checkpoint_file(checkpoint)
    data = np.fromfile(image, np.uint8)  # read as mmcv does: cv2.imread takes a file that is cut
    if not data.size or cv2.imdecode(data, cv2.IMREAD_COLOR) is None:
        raise RebnnError(f'{image} cannot be read as an image', fix='Name a JPEG or PNG file.')


def _refuse_classifier(cfg: Config, name: str) -> None:
    if cfg.get('default_scope') == 'mmpretrain':
        raise RebnnError(
            f'{name} is the config of a classifier, which draws no boxes', fix='Name the config of a detector.'
        )


def _stored_config(checkpoint: str) -> Config:
    """The config that a checkpoint holds, where mmengine looks for it."""
    stored = CheckpointLoader.load_checkpoint(checkpoint, 'cpu', 'silent')
    about = {**stored.get('meta', {}), **stored.get('message_hub', {}).get('runtime_info', {})}
    if 'cfg' not in about:
        raise RebnnError(f'{checkpoint} does not hold the config of its network', fix='Name that before it.')
    cfg = Config.fromstring(about['cfg'], '.py')
    _refuse_classifier(cfg, f'what {checkpoint} holds')
    return cfg


def check_device(device: str | None) -> None:
    """Check that PyTorch knows and finds a device."""
    try:
        torch.empty(0, device=device)
    except (AssertionError, RuntimeError) as error:  # the first where PyTorch is built without CUDA
        what = f'--device {device} cannot be used ({first_sentence(error)})'
        raise RebnnError(what, fix='Take cpu, or leave it out.') from error


def load_detector(config: str | None, checkpoint: str, device: str | None = None) -> Any:
    """Make mmdet's ``DetInferencer`` of a config and a checkpoint."""
    # imported here: it takes seconds, and the checks before it should not wait for it
    with quiet():
        from mmdet.apis import DetInferencer

    check_device(device)
    # the inferencer has no folder for logs, and needs none
    warnings.filterwarnings('ignore', message='Failed to add .*VisBackend')
    cfg = _stored_config(checkpoint) if config is None else Config.fromfile(config)
    check_sections(cfg, ['model', 'test_dataloader'])
    # mmdet looks for the pipeline in the outermost data set only
    _, cfg.test_dataloader.dataset = next(leaf_datasets(cfg.test_dataloader.dataset, ''))
    with user_errors(cfg), redirect_stdout(io.StringIO()):  # the loader prints what it loads
        inferencer = DetInferencer(cfg, checkpoint, device=device, show_progress=False)
    check_checkpoint(inferencer.model, checkpoint)
    return inferencer
