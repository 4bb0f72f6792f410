"""Untrained detectors with three classes for small images, as the demos load them: a config and a checkpoint."""

from pathlib import Path

import pytest

from tests.tools.conftest import stop_tool  # noqa: F401

ROOT = Path(__file__).parents[2]
Files = tuple[Path, Path]


def save_untrained(name: str, folder: Path) -> Files:
    pytest.importorskip('mmcv._ext', reason='mmdet needs the compiled ops of mmcv')
    import torch
    from mmdet.registry import MODELS
    from mmengine.config import Config
    from mmengine.registry import init_default_scope

    cfg = Config.fromfile(ROOT / 'configs/bccd' / name)
    # An untrained detector is sure of nothing: with no threshold it returns as many boxes as it may.
    cfg.merge_from_dict({'model.test_cfg.rcnn.score_thr': 0.0, 'test_dataloader.dataset.pipeline.1.scale': (160, 128)})
    init_default_scope('mmdet')
    torch.manual_seed(0)
    model = MODELS.build(cfg.model)
    config, checkpoint = folder / name, folder / f'{name}.pth'
    cfg.dump(config)
    meta = {'cfg': cfg.pretty_text, 'dataset_meta': dict(classes=('RBC', 'WBC', 'Platelets'))}
    torch.save({'state_dict': model.state_dict(), 'meta': meta}, checkpoint)
    return config, checkpoint


@pytest.fixture(scope='session')
def binary_detector(tmp_path_factory) -> Files:
    """Config and checkpoint of the 1-bit blood-cell detector."""
    return save_untrained('faster_rcnn_r18_rebnn_bccd.py', tmp_path_factory.mktemp('binary'))


@pytest.fixture(scope='session')
def real_detector(tmp_path_factory) -> Files:
    """Config and checkpoint of its full-precision counterpart."""
    return save_untrained('faster_rcnn_r18_bccd.py', tmp_path_factory.mktemp('real'))
