"""A packed file's score on a test set, compared with PyTorch's."""

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DefaultScope

pytest.importorskip('mmdet')

from mmdet.registry import MODELS

from lab.tools.detector_score import main, score
from rebnn_mm.deploy.onnx_file import seal
from rebnn_mm.export import exporter
from rebnn_mm.export.metadata import set_metadata
from rebnn_mm.export.options import Options
from rebnn_mm.export.passes import passes_of
from rebnn_mm.export.source import load_source
from tests.export.detection.detectors import CONFIGS, DELTAS, RETINA_ANCHORS, lively, one_stage_config

SAMPLE = CONFIGS.parent / 'demo' / 'coco_sample'


@pytest.fixture(autouse=True)
def _scope_of_mmdet():
    with DefaultScope.overwrite_default_scope('mmdet'):
        yield


class Files(NamedTuple):
    config: str
    checkpoint: str
    packed: str


@pytest.fixture(scope='module')
def files(tmp_path_factory) -> Files:
    """A small detector for the images of the COCO sample: its config, its checkpoint and its packed file."""
    folder: Path = tmp_path_factory.mktemp('score')
    cfg = Config.fromfile(CONFIGS / 'demo' / 'faster_rcnn_r18_rebnn_coco_sample.py')
    head = dict(type='RetinaHead', anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS)
    cfg.model = one_stage_config(head, score_thr=0.7)
    cfg.model['bbox_head']['num_classes'] = 80
    cfg.model['data_preprocessor'].update(mean=[123.7, 116.3, 103.5], std=[58.4, 57.1, 57.4], bgr_to_rgb=True)
    cfg.test_dataloader.dataset.update(data_root=str(SAMPLE), indices=3)
    next(step for step in cfg.test_dataloader.dataset.pipeline if step['type'] == 'Resize')['scale'] = (128, 96)
    cfg.test_evaluator.ann_file = str(SAMPLE / 'annotations' / 'instances_val2017.json')
    cfg.dump(folder / 'tiny.py')
    names = Files(*(str(folder / name) for name in ('tiny.py', 'tiny.pth', 'tiny.onnx')))
    with DefaultScope.overwrite_default_scope('mmdet'):
        torch.manual_seed(0)
        torch.save({'state_dict': lively(MODELS.build(cfg.model)).state_dict()}, names.checkpoint)
        source = load_source(names.config, names.checkpoint)
        task = exporter.task_of(source.model)
        graph, _ = exporter.build_unfused_graph(source.model, task, source.size)
        graph = exporter.apply_passes(graph, *passes_of(task, Options(fuse=False)))
    set_metadata(graph, task.name, config=source.config, classes=source.classes, preprocess=source.preprocess)
    exporter.write(seal(graph.SerializeToString()), names.packed)
    return names


def test_the_packed_file_scores_as_the_checkpoint_does(files):
    result = score(*files, use_library=False)
    torch_run, packed = result.runs.values()
    assert result.images == 3
    assert result.detections >= 60
    assert [image.same for image in packed.agreements] == [True] * 3
    assert packed.metrics == pytest.approx(torch_run.metrics, abs=1e-3)
    assert 'coco/bbox_mAP_50' in torch_run.metrics


def test_another_checkpoint_is_found_to_be_another(files, tmp_path):
    state = torch.load(files.checkpoint)['state_dict']
    state['bbox_head.retina_cls.bias'] += 0.5
    torch.save({'state_dict': state}, tmp_path / 'other.pth')
    result = score(files.config, str(tmp_path / 'other.pth'), files.packed, use_library=False)
    assert not any(image.same for image in result.runs['packed file'].agreements)


def test_command_prints_the_runs_side_by_side(files, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['score', *files, '--no-library', '--other-rounding'])
    main()
    printed = capsys.readouterr().out
    found = re.search(r'coco/bbox_mAP_50\W+([\d.]+)\W+([\d.]+)\W+([\d.]+)', printed)
    assert [float(value) for value in found.groups()] == pytest.approx([float(found[1])] * 3, abs=2e-3)
    assert re.search(r'images with the same detections\W+3\W+3', printed)
    assert re.search(r'detections missing\W+0\W+0', printed)


def test_command_says_in_one_sentence_what_is_missing(files, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['score', files.config, files.checkpoint, 'nowhere.onnx'])
    with pytest.raises(SystemExit):
        main()
    assert 'no packed model at nowhere.onnx' in capsys.readouterr().err
