"""The start of a detector gives what the classifier gave, also where that took its channels the other way round."""

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from mmengine.runner import load_checkpoint

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from lab.tools.pack_start import pack_start
from rebnn_mm.methods import ReBNNConv2d
from rebnn_mm.utils import checkpoint
from tests.refusal import refusal
from tests.scripts import ROOT

LITTLE = dict(channels=(8, 16, 16, 16), depths=(1, 1, 1, 1))


def classifier(to_rgb: bool) -> Config:
    cfg = Config.fromfile(ROOT / 'configs/pretrain/one_bit_tiny_tinyimagenet.py')
    cfg.model.backbone.update(LITTLE)
    if to_rgb:
        means = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)
        cfg.model.data_preprocessor.update(means)
    cfg.model.head.in_channels = 16
    return cfg


@pytest.mark.parametrize('to_rgb', [True, False])
def test_a_detector_sees_with_its_start_what_the_classifier_saw(to_rgb, tmp_path, monkeypatch):
    torch.manual_seed(0)
    cfg = classifier(to_rgb)
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        taught = MODELS.build(cfg.model).eval()
    for layer in taught.backbone.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    torch.save(dict(state_dict=taught.state_dict(), meta=dict(cfg=cfg.pretty_text)), tmp_path / 'epoch_1.pth')
    pack_start(tmp_path / 'epoch_1.pth', tmp_path / 'little.npz')
    monkeypatch.setattr(checkpoint, 'STARTS', tmp_path)
    options = Config.fromfile(ROOT / 'configs/one_bit/tiny_teacher_bccd.py').model
    start = dict(type='Pretrained', checkpoint='rebnn://little', prefix='backbone.')
    options.backbone.update(LITTLE, init_cfg=start)
    options.neck.update(in_channels=[16, 16, 16])
    with DefaultScope.overwrite_default_scope('mmdet'):
        detector = MODELS.build(options).eval()
    detector.init_weights()
    image = torch.randint(0, 256, (3, 64, 64), dtype=torch.uint8)
    with torch.inference_mode():
        expected = taught.backbone(taught.data_preprocessor(dict(inputs=image[None]))['inputs'])[-1]
        found = detector.backbone(detector.data_preprocessor(dict(inputs=[image]))['inputs'])[-1]
    assert (found - expected).norm() < 0.02 * expected.norm()


def test_a_detector_of_other_classes_finds_boxes_with_all_of_a_detector(tmp_path, monkeypatch):
    torch.manual_seed(0)
    cfg = Config.fromfile(ROOT / 'configs/one_bit/tiny_teacher_bccd.py')
    with DefaultScope.overwrite_default_scope('mmdet'):
        taught = MODELS.build(cfg.model).eval()
        cfg.model.bbox_head.num_classes = 1
        started = MODELS.build(cfg.model).eval()
    torch.save(dict(state_dict=taught.state_dict(), meta=dict(cfg=cfg.pretty_text)), tmp_path / 'epoch_1.pth')
    pack_start(tmp_path / 'epoch_1.pth', tmp_path / 'whole.npz')
    monkeypatch.setattr(checkpoint, 'STARTS', tmp_path)
    images = torch.randn(1, 3, 64, 64)
    with torch.inference_mode():
        expected = taught(images)[1][0]
        before = started(images)[1][0]
        load_checkpoint(started, 'rebnn://whole', map_location='cpu', logger='silent')
        found = started(images)[1][0]
    assert (found - expected).norm() < 0.05 * expected.norm() < (before - expected).norm()


def test_weights_are_int8_and_the_rest_is_as_it_was(tmp_path):
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        taught = MODELS.build(classifier(False).model)
    meta = dict(cfg=classifier(False).pretty_text)
    torch.save(dict(state_dict=taught.state_dict(), meta=meta), tmp_path / 'epoch_1.pth')
    pack_start(tmp_path / 'epoch_1.pth', tmp_path / 'little.npz')
    with np.load(tmp_path / 'little.npz') as stored:
        for key, value in taught.backbone.state_dict(prefix='backbone.').items():
            if value.dim() < 2:
                assert np.array_equal(stored[key], value)
                continue
            scale = stored[f'scale of {key}']
            assert stored[key].dtype == np.int8 and scale.shape == (len(value), 1, 1, 1)
            assert np.abs(stored[key] * scale - value.numpy()).max() <= scale.max() / 2 * 1.001
        assert not [key for key in stored.files if 'head' in key]


def test_what_is_neither_is_refused(tmp_path):
    torch.save(dict(state_dict={'conv.weight': torch.zeros(1)}), tmp_path / 'other.pth')
    message = refusal(pack_start, tmp_path / 'other.pth', tmp_path / 'x.npz')
    assert (
        'other.pth: not the checkpoint of a classifier or detector.' in message and not (tmp_path / 'x.npz').exists()
    )


def test_a_binary_detector_computes_with_its_start_what_it_computed(tmp_path, monkeypatch):
    torch.manual_seed(0)
    cfg = Config.fromfile(ROOT / 'configs/one_bit/nano_bccd.py')
    with DefaultScope.overwrite_default_scope('mmdet'):
        taught, started = (MODELS.build(cfg.model).eval() for _ in range(2))
    layers = [layer for layer in taught.modules() if isinstance(layer, ReBNNConv2d)]
    for layer in layers:
        layer.alpha.data.uniform_(0.1, 1)
    torch.save(dict(state_dict=taught.state_dict(), meta=dict(cfg=cfg.pretty_text)), tmp_path / 'epoch_1.pth')
    pack_start(tmp_path / 'epoch_1.pth', tmp_path / 'bits.npz')
    monkeypatch.setattr(checkpoint, 'STARTS', tmp_path)
    load_checkpoint(started, 'rebnn://bits', map_location='cpu', logger='silent')
    for layer, own in zip(layers, (x for x in started.modules() if isinstance(x, ReBNNConv2d)), strict=True):
        assert torch.equal(own.weight < 0, layer.weight < 0) and torch.equal(own.alpha, layer.alpha)
        assert torch.equal(own.weight.abs(), layer.alpha.view(-1, 1, 1, 1).expand_as(own.weight))
    weights = sum(layer.weight.numel() for layer in layers)
    assert (tmp_path / 'bits.npz').stat().st_size < weights / 8 + 2e5
