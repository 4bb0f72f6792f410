"""Data in place of those that are not here."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.registry import DATASETS, init_default_scope

from lab.tools.stand_in_data import MadeUpTexts, class_count, find_published_length, stand_in

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / 'demo' / 'coco_sample'


@pytest.mark.parametrize(
    ('config', 'length'),
    [
        ('coco/ssd300_vgg16_rebnn_coco.py', 117_266),
        ('voc/faster_rcnn_r18_rebnn_voc.py', 16_551),
        ('imagenet/resnet18_rebnn_imagenet.py', 1_281_167),
        ('cifar10/resnet20.py', 50_000),
        ('cifar10/cpu/resnet20.py', 10_000),
        ('glue/rebnn.py', 67_349),
    ],
)
def test_lengths_of_data_sets_that_everybody_knows(config, length):
    assert find_published_length(Config.fromfile(ROOT / 'configs' / config))[0] == length


def test_others_are_unknown():
    assert find_published_length(Config.fromfile(ROOT / 'configs/bccd/faster_rcnn_r18_rebnn_bccd.py')) is None


def test_a_detector_with_few_classes_sees_only_those():
    pytest.importorskip('mmdet')
    cfg = Config.fromfile(ROOT / 'configs/bccd/faster_rcnn_r18_rebnn_bccd.py')
    assert class_count(cfg.model) == 3
    init_default_scope('mmdet')
    images, name = stand_in(cfg, SAMPLE)
    images = DATASETS.build(images)
    assert name == 'demo/coco_sample'
    labels = torch.cat([images[index]['data_samples'].gt_instances.labels for index in range(8)])
    assert set(labels.tolist()) == {0, 1, 2}
    assert images[0]['inputs'].shape[-1] == 320


@pytest.mark.parametrize(
    ('config', 'size', 'classes'),
    [('imagenet/resnet18_rebnn_imagenet.py', (3, 224, 224), 80), ('cifar10/resnet20.py', (3, 32, 32), 10)],
)
def test_a_classifier_sees_objects_with_their_kind(config, size, classes):
    pytest.importorskip('mmpretrain')
    init_default_scope('mmpretrain')
    objects, _ = stand_in(Config.fromfile(ROOT / 'configs' / config), SAMPLE)
    objects = DATASETS.build(objects)
    assert objects[5]['inputs'].shape == size
    assert len({label for _, _, label in objects.objects}) > 5
    assert max(label for _, _, label in objects.objects) < classes


def test_texts_are_the_same_every_time_and_can_be_learned():
    texts = MadeUpTexts(labels=3, longest=12)
    first, again = texts[7], texts[7]
    assert first['inputs']['input_ids'].equal(again['inputs']['input_ids'])
    assert max(len(texts[index]['inputs']['input_ids']) for index in range(50)) == 12
    assert {int(texts[index]['data_samples'].gt_label) for index in range(50)} == {0, 1, 2}
    assert MadeUpTexts(labels=1, longest=12)[0]['data_samples'].gt_label.is_floating_point()


def test_no_sample_is_one_sentence(tmp_path):
    cfg = Config.fromfile(ROOT / 'configs/coco/faster_rcnn_r18_rebnn_coco.py')
    with pytest.raises(ValueError, match='no sample images at .* --data config'):
        stand_in(cfg, tmp_path)
