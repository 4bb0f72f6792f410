"""The scores of a packed file compared with those that tools/test.py prints for the checkpoint it was made from."""

import json
import pickle

import cv2
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmengine.runner import Runner

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from mmdet.registry import MODELS

from rebnn_mm.deploy.native import LibraryError, library_path
from rebnn_mm.export.difference import agreement
from tests.deploy import models
from tests.export.detection.detectors import DELTAS, RETINA_ANCHORS, lively, one_stage_config
from tests.scripts import run_here
from tests.tolerances import FLOAT32_ROUNDING
from tests.tools.conftest import ROOT
from tests.tools.packed_classifier import NORMAL, load, write_classifier, write_config, write_packed

TOOL = 'rebnn test-packed'
PHOTOS = ROOT / 'demo/coco_sample/val2017'
NAMES = ('one', 'two', 'three', 'four', 'five')


@pytest.fixture(scope='module')
def classifier(tmp_path_factory):
    return write_classifier(tmp_path_factory.mktemp('classifier'))


@pytest.fixture(scope='module')
def detector(tmp_path_factory):
    """A folder with a config, a checkpoint and a packed file; every second box of the detector counts as true."""
    folder = tmp_path_factory.mktemp('detector')
    photos = sorted(PHOTOS.iterdir())[:2]
    entries = []
    for number, photo in enumerate(photos):
        height, width = cv2.imread(str(photo)).shape[:2]
        entries.append(dict(id=number, file_name=photo.name, width=width, height=height))
    categories = [dict(id=i + 1, name=name) for i, name in enumerate(NAMES)]
    objects = dict(images=entries, annotations=[], categories=categories)
    (folder / 'boxes.json').write_text(json.dumps(objects))
    head = dict(
        type='RetinaHead', conv_cfg=dict(type='ReBNNConv2d'), anchor_generator=RETINA_ANCHORS, bbox_coder=DELTAS
    )
    network = one_stage_config(head)
    network['data_preprocessor'] = dict(type='DetDataPreprocessor', bgr_to_rgb=True, pad_size_divisor=32, **NORMAL)
    loader = dict(
        batch_size=1,
        num_workers=0,
        sampler=dict(type='DefaultSampler', shuffle=False),
        dataset=dict(
            type='CocoDataset',
            ann_file=str(folder / 'boxes.json'),
            data_prefix=dict(img=str(PHOTOS)),
            metainfo=dict(classes=NAMES),
            pipeline=[
                dict(type='LoadImageFromFile'),
                dict(type='Resize', scale=(160, 128), keep_ratio=True),
                dict(
                    type='PackDetInputs',
                    meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor'),
                ),
            ],
            test_mode=True,
        ),
    )
    write_config(
        folder,
        default_scope='mmdet',
        model=network,
        test_dataloader=loader,
        test_cfg=dict(),
        test_evaluator=dict(type='CocoMetric', ann_file=str(folder / 'boxes.json'), metric='bbox'),
        custom_hooks=[dict(type='ReBNNHook')],
    )
    cfg = Config.fromfile(folder / 'tiny.py')
    init_default_scope('mmdet')
    torch.manual_seed(0)
    torch.save(lively(MODELS.build(cfg.model)).state_dict(), folder / 'tiny.pth')
    source = load(folder)
    for batch in Runner.build_dataloader(cfg.test_dataloader):
        with torch.no_grad():
            (sample,) = source.model.test_step(batch)
        for box, label in zip(sample.pred_instances.bboxes[::2], sample.pred_instances.labels[::2], strict=True):
            x, y, width, height = (*box[:2].tolist(), *(box[2:] - box[:2]).tolist())
            objects['annotations'].append(
                dict(
                    id=len(objects['annotations']) + 1,
                    image_id=sample.img_id,
                    category_id=int(label) + 1,
                    bbox=[x, y, 0.87 * width, height],
                    area=width * height,
                    iscrowd=0,
                )
            )
    (folder / 'boxes.json').write_text(json.dumps(objects))
    write_packed(folder, source)
    return folder


@pytest.fixture(params=['without', 'with'])
def kernels(request):
    """Flags of the tool, and what it says of the kernels."""
    if request.param == 'without':
        return ['--no-library'], 'without our kernels'
    try:
        library_path()
    except LibraryError as error:
        pytest.skip(str(error))
    return ['--threads', 2], 'with our kernels'


def printed_scores(capsys):
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ['config', 'data', 'log']
    assert not any(word in line for line in lines for word in ('mmengine', 'creating index', 'OneDL'))
    return [line for line in lines if line.startswith(('│ coco/bbox', 'accuracy/top1'))], lines[-1]


def both(folder, kernels, capsys):
    """Predictions of PyTorch and of the packed file; the scores that both tools print must be the same."""
    flags, said = kernels
    run_here('tools/test.py', folder / 'tiny.py', folder / 'tiny.pth', '--out', folder / 'torch.pkl')
    expected, _ = printed_scores(capsys)
    run_here(TOOL, folder / 'tiny.py', folder / 'tiny.onnx', '--out', folder / 'packed.pkl', *flags)
    scores, last = printed_scores(capsys)
    assert scores == expected and len(scores) == 1
    predictions = [pickle.loads((folder / f'{name}.pkl').read_bytes()) for name in ('torch', 'packed')]
    assert last == f'{len(predictions[0])} images through {folder / "tiny.onnx"}, {said}'
    return scores[0], predictions


def test_same_accuracy_and_the_same_class_of_each_image(classifier, kernels, capsys):
    score, (expected, found) = both(classifier, kernels, capsys)
    assert 0 < float(score.split()[-1]) < 100
    assert len(expected) == 40
    labels = [int(sample['pred_label']) for sample in expected]
    assert len(set(labels)) > 2
    assert labels == [int(sample['pred_label']) for sample in found]
    for first, second in zip(expected, found, strict=True):
        torch.testing.assert_close(second['pred_score'], first['pred_score'], atol=FLOAT32_ROUNDING, rtol=0)


def boxes(sample):
    return tuple(sample['pred_instances'][key].numpy() for key in ('bboxes', 'scores', 'labels'))


def test_same_precision_and_the_same_boxes_in_each_image(detector, kernels, capsys):
    score, (expected, found) = both(detector, kernels, capsys)
    assert 5 < float(score.split('│')[2]) < 95
    for first, second in zip(expected, found, strict=True):
        assert first['img_id'] == second['img_id']
        assert len(first['pred_instances']['bboxes']) > 10
        assert agreement(boxes(first), boxes(second)).same


def test_the_configs_own_preparation_is_not_used_and_named(detector, capsys):
    option = 'test_dataloader.dataset.pipeline.1.keep_ratio=False'
    tables = []
    for flags in ([], ['--cfg-options', option]):
        run_here(TOOL, detector / 'tiny.py', detector / 'tiny.onnx', '--no-library', *flags)
        said = capsys.readouterr()
        tables.append([line for line in said.out.splitlines() if line.startswith('│ coco/bbox')])
    assert tables[0] == tables[1]
    assert "is scored that way: resize {'mode': 'keep_ratio', 'size': [160, 128]} instead of" in said.err


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['gone.py', 'small.onnx'], 'no config file at gone.py'),
        (['tiny.py', 'gone.onnx'], 'no packed model at gone.onnx'),
        (['tiny.py', 'tiny.pth'], 'tiny.pth: '),
        (['tiny.py', 'small.onnx'], 'REBNN_ORT_LIBRARY names no/library.so, and there is no such file'),
        (['tiny.py', 'small.onnx', '--no-library'], 'small.onnx gives one label per image, and CocoDataset'),
        (['tiny.py', 'small.onnx', '--threads', '0'], 'threads must be a whole number from 1 to 1024'),
        (['tiny.py', 'small.onnx', '--out', 'x.json'], '--out x.json must end in .pkl'),
        (['tiny.py', 'small.onnx', '--cfg-options', 'test_evaluator=None'], 'tiny.py has no test_evaluator. Take'),
        (
            ['tiny.py', 'small.onnx', '--cfg-options', 'test_dataloader.dataset.ann_file=no.json'],
            'no annotations at no.json',
        ),
    ],
    ids=['config', 'model', 'no model', 'library', 'task', 'threads', 'out', 'evaluator', 'data'],
)
def test_wrong_input_is_one_sentence(detector, arguments, words, monkeypatch, capsys):
    monkeypatch.chdir(detector)
    monkeypatch.setenv('REBNN_ORT_LIBRARY', 'no/library.so')
    models.write(models.classifier(), detector / 'small.onnx')
    with pytest.raises(SystemExit) as stopped:
        run_here(TOOL, *arguments)
    assert stopped.value.code == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if f'{TOOL}: ' in line]
    assert words in line
