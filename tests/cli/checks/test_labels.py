import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from mmengine.dataset import ConcatDataset, RepeatDataset
from torch import nn
from torch.utils.data import DataLoader

from rebnn_mm.cli.checks.labels import check_batches, check_classes, check_labels
from tests.coco_config import coco_config
from tests.refusal import refusal


class Head(nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.num_classes = num_classes


def detector(num_classes):
    """The parts of a two-stage detector that count classes; only one counts those of the data."""
    model = nn.Module()
    model.rpn_head, model.semantic_head, model.roi_head = Head(1), Head(1), nn.Module()
    model.roi_head.bbox_head = nn.ModuleList([Head(num_classes)])
    return model


@pytest.fixture
def classifier_data(tmp_path):
    custom = pytest.importorskip('mmpretrain.datasets').CustomDataset

    def make(labels, classes=None):
        (tmp_path / 'labels.txt').write_text(''.join(f'{n}.jpg {label}\n' for n, label in enumerate(labels)))
        return custom(ann_file=str(tmp_path / 'labels.txt'), data_prefix=str(tmp_path), classes=classes)

    return make


def test_labels_of_a_file_beyond_the_classes(classifier_data):
    model = nn.ModuleDict(dict(head=Head(2)))
    assert refusal(check_classes, model, classifier_data([0, 1, 1], ['ant', 'bee'])) is None
    assert refusal(check_classes, model, classifier_data([0, 1])) is None
    # counted from 1, as people do
    found = refusal(check_classes, model, RepeatDataset(classifier_data([1, 2], ['ant', 'bee']), 2))
    assert found.startswith('model.head.num_classes=2, but the training data have the label 2: labels go from 0 to')
    both = ConcatDataset([classifier_data([0, 1]), classifier_data([0, 7])])
    assert 'Set model.head.num_classes=8, or' in refusal(check_classes, model, both)


def test_labels_of_boxes_beyond_the_classes(tmp_path):
    coco = pytest.importorskip('mmdet.datasets').CocoDataset
    names = ['person', 'bicycle', 'car', 'motorcycle']
    content = dict(
        images=[dict(id=1, file_name='1.jpg', height=9, width=9)],
        categories=[dict(id=number, name=name) for number, name in enumerate(names)],
        annotations=[dict(id=1, image_id=1, category_id=2, bbox=[1, 1, 5, 5], area=25, iscrowd=0)],
    )
    (tmp_path / 'boxes.json').write_text(json.dumps(content))
    data = coco(ann_file=str(tmp_path / 'boxes.json'), data_prefix=dict(img=''))  # 80 names, of which it has four
    found = refusal(check_classes, detector(2), data)
    assert found.startswith("model.roi_head.bbox_head.0.num_classes=2, but the training data have the label 2 ('car')")
    assert 'Set model.roi_head.bbox_head.0.num_classes=80, or' in found
    assert refusal(check_classes, detector(3), data) is None  # no box has a label beyond


def test_names_decide_where_labels_are_not_told():
    data = SimpleNamespace(metainfo=dict(classes=('a', 'b', 'c')))
    assert "the label 2 ('c')" in refusal(check_classes, nn.ModuleDict(dict(head=Head(2))), data)
    assert refusal(check_classes, nn.ModuleDict(dict(head=Head(3))), data) is None
    assert refusal(check_classes, nn.ModuleDict(dict(backbone=Head(1))), data) is None


def test_images_that_fill_no_batch_are_no_training():
    few = DataLoader(list(range(24)), batch_size=128, drop_last=True)
    assert refusal(check_batches, few).startswith('train_dataloader: 24 images fill no batch of 128, and drop_last')
    assert refusal(check_batches, DataLoader(list(range(24)), batch_size=128)) is None
    assert refusal(check_batches, DataLoader(list(range(128)), batch_size=128, drop_last=True)) is None


SPLITS = ('train', 'val', 'test')


def named_classes(folder, classes, **categories):
    """A config whose splits have these categories, ``'person car boat'`` where none are given."""
    pytest.importorskip('mmdet')
    cfg = coco_config(f'{folder}/')
    (folder / 'annotations').mkdir(exist_ok=True)
    for split in SPLITS:
        path = f'annotations/{split}.json'
        names = categories.get(split, 'person car boat').split()
        listed = [dict(id=3 * number + 1, name=name) for number, name in enumerate(names)]
        (folder / path).write_text(json.dumps(dict(images=[], annotations=[], categories=listed)))
        dataset = cfg[f'{split}_dataloader'].dataset
        dataset.update(ann_file=path, type='mmdet.CocoDataset', metainfo=dict(classes=classes))
        if split != 'train':
            cfg[f'{split}_evaluator'].ann_file = f'{folder}/{path}'
    return cfg


@pytest.mark.parametrize('split', SPLITS)
def test_classes_that_annotations_lack_are_named_with_the_nearest(tmp_path, split):
    """mmdet numbers the categories that it finds: labels after a missing one are shifted."""
    classes = ('person', 'car', 'boat')
    assert refusal(check_labels, named_classes(tmp_path, classes), SPLITS) is None
    cfg = named_classes(tmp_path, classes, **{split: 'Person cat boat car'})
    message = refusal(check_labels, cfg, SPLITS)
    assert message.startswith(
        f"{split}_dataloader.dataset.metainfo.classes names 'person' (nearest: 'Person'), which "
    )
    assert f'{tmp_path}/annotations/{split}.json does not list' in message
    cfg = named_classes(tmp_path, classes, **{split: 'Person carr bat'})
    message = refusal(check_labels, cfg, SPLITS)
    assert "'person' (nearest: 'Person'), 'car' (nearest: 'carr'), 'boat' (nearest: 'bat'), which" in message
    assert refusal(check_labels, cfg, [name for name in SPLITS if name != split]) is None


def test_labels_that_were_shifted_are_those_that_mmdet_reads(tmp_path):
    coco = pytest.importorskip('mmdet.datasets').CocoDataset
    for categories, classes in (
        ('person car boat', ('Person', 'car', 'boat')),
        ('car person boat', ('person', 'car', 'boat')),
        ('person person car boat', ('person', 'car', 'boat')),
    ):
        cfg = named_classes(tmp_path, classes, train=categories)
        data = coco(ann_file=f'{tmp_path}/annotations/train.json', metainfo=dict(classes=classes), lazy_init=True)
        data.load_data_list()
        names = categories.split()
        read = [names[category // 3] for category in data.cat_ids]  # in the order of their labels
        assert read != list(classes) and refusal(check_labels, cfg, ['train']) is not None


def test_other_ways_to_number_classes_wrongly(tmp_path):
    found = refusal(check_labels, named_classes(tmp_path, ('car', 'boat', 'person')), ['train'])
    assert "metainfo.classes are numbered 'car', 'boat', 'person', and " in found
    assert "lists them as 'person', 'car', 'boat'" in found
    assert "write ('person',)" in refusal(check_labels, named_classes(tmp_path, 'person'), ['train'])
    assert refusal(check_labels, named_classes(tmp_path, ['car', 'boat']), SPLITS) is None  # the others are left out
    cfg = named_classes(tmp_path, ('person', 'boat'))
    other = named_classes(tmp_path, ('person', 'boat'), val='boat person')
    cfg.val_evaluator.ann_file = f'{tmp_path}/other.json'
    (tmp_path / 'annotations/val.json').rename(tmp_path / 'other.json')
    cfg.val_dataloader.dataset.ann_file = 'annotations/train.json'
    assert f"and {tmp_path}/other.json lists them as 'boat', 'person'" in refusal(check_labels, cfg, SPLITS)
    assert refusal(check_labels, other, ['train', 'test']) is None


def test_a_metric_with_the_annotations_of_other_images(tmp_path):
    """Scores of images that share only their numbers are those of noise."""
    cfg = named_classes(tmp_path, ('person', 'car', 'boat'))
    path = tmp_path / 'annotations' / 'val.json'
    content = json.loads(path.read_text())
    other = cfg.val_evaluator.ann_file = f'{tmp_path}/other.json'

    def check(theirs, ours):
        for file, images in ((Path(other), theirs), (path, ours)):
            listed = [dict(id=number, file_name=name) for number, name in images]
            file.write_text(json.dumps(dict(content, images=listed)))
        return refusal(check_labels, cfg, ['val'])

    assert check([(1, 'val/a.jpg'), (2, 'b.jpg')], [(1, 'a.jpg')]) is None  # a part of them, below another folder
    for theirs in ([(1, 'b.jpg')], [(2, 'a.jpg')], []):
        found = check(theirs, [(1, 'a.jpg')])
        assert found.startswith(f'val_evaluator.ann_file={other!r}: it does not list the images of {path}, or by')
    cfg.val_evaluator = [cfg.val_evaluator]
    assert check([(2, 'a.jpg')], [(1, 'a.jpg')]).startswith('val_evaluator.0.ann_file=')


def test_names_of_coco_for_other_data(tmp_path):
    cfg = named_classes(tmp_path, ())
    for split in SPLITS:
        del cfg[f'{split}_dataloader'].dataset['metainfo']
    found = refusal(check_labels, cfg, SPLITS)
    assert "names 'bicycle' (nearest: " in found and 'and 69 more' in found and len(found) < 900
    assert "It lists 'person', 'car', 'boat'. " in found


def test_classes_of_wrapped_data_and_of_other_kinds(tmp_path):
    cfg = named_classes(tmp_path, ('Person',))
    cfg.train_dataloader.dataset = dict(type='RepeatDataset', times=2, dataset=cfg.train_dataloader.dataset)
    assert refusal(check_labels, cfg, ['train']).startswith('train_dataloader.dataset.dataset.metainfo.classes names')
    for kind in ('CustomDataset', 'XMLDataset', 'NoSuchDataset'):
        cfg.train_dataloader.dataset.dataset.type = kind
        assert refusal(check_labels, cfg, ['train']) is None
    assert refusal(check_labels, dict(val_dataloader=None), SPLITS) is None
