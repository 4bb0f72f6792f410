"""Packed files in mmengine's test loop: what they find, in whose pixels, and with which data sets they do not go."""

import json
import pickle

import cv2
import numpy as np
import onnx
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import ConcatDataset, pseudo_collate
from mmengine.evaluator import Evaluator

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from mmdet.datasets import CocoDataset, VOCDataset
from mmdet.evaluation import VOCMetric
from mmdet.utils import register_all_modules

from rebnn_mm.datasets import CIFAR10Archive
from rebnn_mm.deploy import load
from rebnn_mm.evaluation.packed_predictor import PackedPredictor, other_preparation
from tests.deploy import models
from tests.deploy.conftest import PHOTO
from tests.deploy.models import CLASSES, PREPROCESS

register_all_modules(init_default_scope=False)

BOX = """<annotation>
<size><width>160</width><height>120</height><depth>3</depth></size>
<object><name>{name}</name><difficult>0</difficult><bndbox>
<xmin>{box[0]}</xmin><ymin>{box[1]}</ymin><xmax>{box[2]}</xmax><ymax>{box[3]}</ymax></bndbox></object>
</annotation>"""


@pytest.fixture(scope='module')
def packed(tmp_path_factory):
    """A classifier, a detector and a raw model, loaded; the detector shrinks its images."""
    folder = tmp_path_factory.mktemp('packed')
    small = {**PREPROCESS, 'resize': {'mode': 'keep_ratio', 'size': [64, 48]}, 'pad': {'divisor': 32, 'value': 0}}
    protos = {name: getattr(models, name)() for name in ('classifier', 'detector', 'raw')}
    change(protos['detector'], preprocess=small)
    files = {name: models.write(proto, folder / f'{name}.onnx') for name, proto in protos.items()}
    return {name: load(file, use_library=False) for name, file in files.items()}


def change(proto, **entries):
    """Replace metadata of a model."""
    kept = {entry.key: entry.value for entry in proto.metadata_props}
    onnx.helper.set_model_props(proto, kept | {f'rebnn.{key}': json.dumps(value) for key, value in entries.items()})


def archive(folder, classes=CLASSES):
    """A data set that holds its images as arrays, with the labels 0, 1, 2, 3, 0, 1."""
    pixels = np.random.default_rng(0).integers(0, 256, (6, 3072), np.uint8)
    (folder / 'test_batch').write_bytes(pickle.dumps(dict(data=pixels, labels=[i % 4 for i in range(6)])))
    return CIFAR10Archive(
        'test',
        data_prefix=dict(root=str(folder)),
        metainfo=dict(classes=classes),
        pipeline=[dict(type='mmpretrain.PackInputs')],
        test_mode=True,
    )


def coco(folder, classes=CLASSES, **pack):
    """A data set of one photo in a file, which its pipeline shrinks."""
    height, width = cv2.imread(str(PHOTO)).shape[:2]
    entry = dict(id=7, file_name=PHOTO.name, width=width, height=height)
    box = dict(id=1, image_id=7, category_id=1, bbox=[10, 10, 50, 50], area=2500, iscrowd=0)
    categories = [dict(id=i + 1, name=name) for i, name in enumerate(classes)]
    (folder / 'boxes.json').write_text(json.dumps(dict(images=[entry], annotations=[box], categories=categories)))
    pipeline = [
        dict(type='LoadImageFromFile'),
        dict(type='mmdet.Resize', scale=(64, 48), keep_ratio=True),
        dict(type='mmdet.PackDetInputs', **pack),
    ]
    return CocoDataset(
        ann_file=str(folder / 'boxes.json'),
        data_prefix=dict(img=str(PHOTO.parent)),
        metainfo=dict(classes=classes),
        pipeline=pipeline,
        test_mode=True,
    )


def predicted(predictor, *indices):
    return predictor.test_step(pseudo_collate([predictor.dataset[i] for i in indices]))


def test_classifier_gets_the_arrays_of_the_data_set(packed, tmp_path):
    dataset = archive(tmp_path)
    samples = predicted(PackedPredictor(packed['classifier'], dataset), 5, 2)
    for sample, index in zip(samples, (5, 2), strict=True):
        scores = packed['classifier'].scores(dataset.get_data_info(index)['img'])
        assert torch.equal(sample.pred_score, torch.from_numpy(scores))
        assert sample.pred_label.tolist() == [scores.argmax()]
        assert sample.gt_label.tolist() == [index % 4]
    assert not torch.equal(samples[0].pred_score, samples[1].pred_score)


def test_detector_gets_the_file_and_gives_boxes_in_its_pixels(packed, tmp_path):
    (sample,) = predicted(PackedPredictor(packed['detector'], coco(tmp_path)), 0)
    found, expected = sample.pred_instances, packed['detector'](PHOTO)
    assert len(found) == 5
    assert torch.equal(found.bboxes, torch.from_numpy(expected.boxes))
    assert torch.equal(found.scores, torch.from_numpy(expected.scores))
    assert torch.equal(found.labels, torch.from_numpy(expected.labels))
    assert sample.img_shape[1] <= 64 < found.bboxes.max() <= max(sample.ori_shape)


@pytest.mark.parametrize(('moved', 'score'), [(0, 1.0), (100, 0.0)], ids=['true', 'elsewhere'])
def test_metrics_that_read_boxes_from_the_samples(packed, tmp_path, moved, score):
    pixels = np.random.default_rng(1).integers(0, 256, (120, 160, 3), np.uint8)
    for name in ('JPEGImages', 'Annotations'):
        (tmp_path / 'VOC2007' / name).mkdir(parents=True)
    cv2.imwrite(str(tmp_path / 'VOC2007/JPEGImages/one.jpg'), pixels)
    (tmp_path / 'one.txt').write_text('one')
    found = packed['detector'](tmp_path / 'VOC2007/JPEGImages/one.jpg')
    # the reader of VOC's files takes one pixel off each edge
    box = (found.boxes[0] + 1 + moved).round().astype(int)
    (tmp_path / 'VOC2007/Annotations/one.xml').write_text(BOX.format(name=found.names[0], box=box))
    dataset = VOCDataset(
        ann_file=str(tmp_path / 'one.txt'),
        data_prefix=dict(sub_data_root=f'{tmp_path}/VOC2007/'),
        metainfo=dict(classes=CLASSES),
        test_mode=True,
        pipeline=[
            dict(type='LoadImageFromFile'),
            dict(type='mmdet.LoadAnnotations', with_bbox=True),
            dict(type='mmdet.PackDetInputs'),
        ],
    )
    evaluator = Evaluator(VOCMetric(metric='mAP', eval_mode='11points'))
    evaluator.dataset_meta = dataset.metainfo
    evaluator.process(predicted(PackedPredictor(packed['detector'], dataset), 0))
    assert evaluator.evaluate(1)['pascal_voc/mAP'] == score


@pytest.mark.parametrize(
    ('model', 'dataset', 'words'),
    [
        ('raw', archive, r'raw\.onnx gives what its head gives \(maps\), neither labels nor boxes'),
        ('classifier', coco, r'gives one label per image, and CocoDataset has samples of DetDataSample.*small\.py'),
        ('detector', archive, r'gives boxes, and CIFAR10Archive has samples of DataSample'),
        ('detector', lambda folder: coco(folder, ['cat']), r'4 classes \(cat, dog, horse, \.\.\.\).* set 1 \(cat\)'),
        ('classifier', lambda folder: archive(folder, 'abcd'), "class 0 is 'cat', in the test data set 'a'"),
        ('detector', lambda folder: coco(folder, meta_keys=['ori_shape']), 'CocoDataset say neither .* keep img_path'),
        ('classifier', lambda folder: ConcatDataset([archive(folder)]), 'ConcatDataset say neither .* without a wrap'),
    ],
    ids=['raw', 'classifier', 'detector', 'number', 'names', 'path', 'wrapper'],
)
def test_what_does_not_go_together_is_refused(packed, tmp_path, model, dataset, words):
    with pytest.raises(ValueError, match=words):
        PackedPredictor(packed[model], dataset(tmp_path))


def test_another_preparation_is_named(packed):
    pipeline = [dict(type='LoadImageFromFile'), dict(type='Resize', scale=(64, 48), keep_ratio=True)]
    normal = dict(mean=PREPROCESS['mean'], std=PREPROCESS['std'], bgr_to_rgb=True, pad_size_divisor=32)

    def note(*steps, **changes):
        loader = dict(dataset=dict(pipeline=list(steps)))
        return other_preparation(
            packed['detector'], Config(dict(test_dataloader=loader, data_preprocessor=normal | changes))
        )

    assert note(*pipeline) is None
    assert "channels rgb instead of bgr; pad {'divisor': 32, 'value': 0} instead of absent." in note(
        *pipeline, bgr_to_rgb=False, pad_size_divisor=1
    )
    assert "resize {'mode': 'keep_ratio', 'size': [64, 48]} instead of absent" in note(pipeline[0])
    assert 'in its own way' in note(*pipeline, dict(type='Rotate', angle=30))
