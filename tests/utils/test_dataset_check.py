import json
from types import SimpleNamespace

import pytest
from mmengine.config import Config
from mmengine.dataset import ConcatDataset, RepeatDataset
from torch import nn
from torch.utils.data import DataLoader

from rebnn_mm.utils.dataset_check import data_paths, missing_data, no_batch, shifted_labels, too_few_classes


def coco_config(root='data/coco/', wrap=lambda dataset: dataset):
    def loader(split):
        dataset = dict(
            type='CocoDataset',
            data_root=root,
            ann_file=f'annotations/instances_{split}2017.json',
            data_prefix=dict(img=f'{split}2017/'),
        )
        return dict(dataset=wrap(dataset))

    evaluator = dict(type='CocoMetric', ann_file=f'{root}annotations/instances_val2017.json')
    return Config(
        dict(
            train_dataloader=loader('train'),
            val_dataloader=loader('val'),
            val_evaluator=evaluator,
            test_dataloader=loader('val'),
            test_evaluator=evaluator,
        )
    )


def make_coco(root):
    (root / 'annotations').mkdir(parents=True)
    for split in ('train', 'val'):
        (root / 'annotations' / f'instances_{split}2017.json').touch()
        (root / f'{split}2017').mkdir()


def test_names_the_file_the_fix_and_every_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = missing_data(coco_config(), ['train', 'val'])
    assert message.startswith('no annotations at data/coco/annotations/instances_train2017.json (train_dataloader.')
    assert f'looked up from {tmp_path}' in message
    assert 'Download COCO 2017 (https://cocodataset.org/#download) to data/coco,' in message
    options = message.split('--cfg-options ')[1].split('. ')[0].split()
    assert options == [
        'train_dataloader.dataset.data_root=/path/to/coco/',
        'val_dataloader.dataset.data_root=/path/to/coco/',
        'val_evaluator.ann_file=/path/to/coco/annotations/instances_val2017.json',
    ]
    assert message.endswith('make demo.')
    assert '\n' not in message


def test_the_options_it_names_do_fix_the_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_coco(tmp_path / 'elsewhere')
    cfg = coco_config(wrap=lambda dataset: dict(type='ConcatDataset', datasets=[dataset, dict(dataset)]))
    options = missing_data(cfg, ['train', 'val', 'test']).split('--cfg-options ')[1].split('. ')[0].split()
    pairs = (option.replace('/path/to/coco', str(tmp_path / 'elsewhere')).split('=') for option in options)
    cfg.merge_from_dict(dict(pairs))
    assert missing_data(cfg, ['train', 'val', 'test']) is None


def test_complete_data_is_silent_and_each_missing_part_is_found(tmp_path):
    make_coco(tmp_path)
    cfg = coco_config(root=f'{tmp_path}/')
    assert missing_data(cfg, ['train', 'val', 'test']) is None
    (tmp_path / 'val2017').rmdir()
    assert missing_data(cfg, ['train']) is None
    message = missing_data(cfg, ['train', 'val'])
    assert message.startswith(f'no images at {tmp_path}/val2017/ (val_dataloader.dataset.data_prefix.img)')
    assert 'train_dataloader' not in message and 'val_evaluator' not in message


@pytest.mark.parametrize(
    ('wrap', 'key'),
    [
        (lambda d: dict(type='RepeatDataset', times=2, dataset=d), 'dataset.dataset'),
        (lambda d: dict(type='ConcatDataset', datasets=[d]), 'dataset.datasets.0'),
        (
            lambda d: dict(type='MultiImageMixDataset', dataset=dict(type='ConcatDataset', datasets=[d])),
            'dataset.dataset.datasets.0',
        ),
    ],
)
def test_wrapped_datasets_are_walked(wrap, key):
    paths = [entry.key for entry in data_paths(coco_config(wrap=wrap), ['train'])]
    assert paths == [f'train_dataloader.{key}.ann_file', f'train_dataloader.{key}.data_prefix.img']


def test_evaluators_in_lists_are_walked(tmp_path):
    metric = dict(type='CocoMetric', ann_file=str(tmp_path / 'val.json'))
    for evaluator in ([metric], dict(type='Evaluator', metrics=[metric])):
        message = missing_data(dict(val_evaluator=evaluator), ['val'])
        assert message.startswith(f'no annotations at {tmp_path}/val.json (val_evaluator.')
        assert '.0.ann_file=' in message


def test_other_data_sets_are_not_called_coco():
    blood = dict(data_root='data/blood/', ann_file='annotations/instances_train.json', type='CocoDataset')
    message = missing_data(dict(train_dataloader=dict(dataset=blood)), ['train'])
    assert 'Put the data set at data/blood/' in message
    assert 'COCO 2017' not in message and 'make demo' not in message


def test_classification_sets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    imagenet = dict(type='ImageNet', data_root='data/imagenet', split='train')
    assert missing_data(dict(train_dataloader=dict(dataset=imagenet)), ['train']).startswith(
        'no data at data/imagenet (train_dataloader.dataset.data_root'
    )
    folder = dict(type='CustomDataset', data_prefix=str(tmp_path / 'train'))
    assert str(tmp_path / 'train') in missing_data(dict(train_dataloader=dict(dataset=folder)), ['train'])
    downloads = dict(type='CIFAR10', data_root='data/cifar10')
    assert missing_data(dict(train_dataloader=dict(dataset=downloads)), ['train']) is None
    downloads['download'] = False
    assert 'data/cifar10' in missing_data(dict(train_dataloader=dict(dataset=downloads)), ['train'])


def test_cifar10_archive_is_named_with_its_source(tmp_path):
    images = dict(type='CIFAR10Archive', data_root=str(tmp_path), data_prefix=dict(root='cifar-10-batches-py'))
    message = missing_data(dict(train_dataloader=dict(dataset=images)), ['train'])
    assert message.startswith(f'no data at {tmp_path}/cifar-10-batches-py (train_dataloader.dataset.data_prefix.root)')
    assert (
        f'Download https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz and unpack it to {tmp_path}, or' in message
    )
    (tmp_path / 'cifar-10-batches-py').mkdir()
    assert missing_data(dict(train_dataloader=dict(dataset=images)), ['train']) is None


def test_remote_data_is_left_to_the_file_backend():
    remote = dict(type='CocoDataset', data_root='s3://bucket/coco/', ann_file='annotations/instances_train2017.json')
    assert missing_data(dict(train_dataloader=dict(dataset=remote)), ['train']) is None


def test_a_config_without_the_split_is_fine():
    assert missing_data(dict(val_dataloader=None, val_evaluator=None), ['train', 'val', 'test']) is None


def test_glue_is_named_with_the_files_that_are_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = dict(type='GLUEDataset', task='qnli', data_root='data/glue')
    cfg = Config(
        dict(
            train_dataloader=dict(dataset=dict(ann_file='QNLI/train.tsv', **rows)),
            val_dataloader=dict(dataset=dict(ann_file='QNLI/dev.tsv', **rows)),
        )
    )
    message = missing_data(cfg)
    assert message.startswith('no rows at data/glue/QNLI/train.tsv (train_dataloader.dataset.ann_file, looked up from')
    assert 'Get QNLI from https://gluebenchmark.com/tasks and unpack it to data/glue, or point to your' in message
    assert '--cfg-options train_dataloader.dataset.data_root=/path/to/data/ val_dataloader' in message
    (tmp_path / 'data/glue/QNLI').mkdir(parents=True)
    for name in ('dev.tsv', 'train_sub.tsv'):
        (tmp_path / 'data/glue/QNLI' / name).touch()
    assert '--cfg-options train_dataloader.dataset.ann_file=QNLI/<dev.tsv|train_sub.tsv> or ' in missing_data(cfg)
    (tmp_path / 'data/glue/QNLI/train.tsv').touch()
    assert missing_data(cfg) is None


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
    assert too_few_classes(model, classifier_data([0, 1, 1], ['ant', 'bee'])) is None
    assert too_few_classes(model, classifier_data([0, 1])) is None
    # counted from 1, as people do
    found = too_few_classes(model, RepeatDataset(classifier_data([1, 2], ['ant', 'bee']), 2))
    assert found.startswith('model.head.num_classes=2, but the training data have the label 2: labels go from 0 to')
    both = ConcatDataset([classifier_data([0, 1]), classifier_data([0, 7])])
    assert 'Set model.head.num_classes=8, or' in too_few_classes(model, both)


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
    found = too_few_classes(detector(2), data)
    assert found.startswith("model.roi_head.bbox_head.0.num_classes=2, but the training data have the label 2 ('car')")
    assert 'Set model.roi_head.bbox_head.0.num_classes=80, or' in found
    assert too_few_classes(detector(3), data) is None  # no box has a label beyond


def test_names_decide_where_labels_are_not_told():
    data = SimpleNamespace(metainfo=dict(classes=('a', 'b', 'c')))
    assert "the label 2 ('c')" in too_few_classes(nn.ModuleDict(dict(head=Head(2))), data)
    assert too_few_classes(nn.ModuleDict(dict(head=Head(3))), data) is None
    assert too_few_classes(nn.ModuleDict(dict(backbone=Head(1))), data) is None


def test_images_that_fill_no_batch_are_no_training():
    few = DataLoader(list(range(24)), batch_size=128, drop_last=True)
    assert no_batch(few).startswith('train_dataloader: 24 images fill no batch of 128, and drop_last=True leaves')
    assert no_batch(DataLoader(list(range(24)), batch_size=128)) is None
    assert no_batch(DataLoader(list(range(128)), batch_size=128, drop_last=True)) is None


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
    """mmdet numbers the categories that it finds: labels behind a missing one are shifted."""
    classes = ('person', 'car', 'boat')
    assert shifted_labels(named_classes(tmp_path, classes), SPLITS) is None
    cfg = named_classes(tmp_path, classes, **{split: 'Person cat boat car'})
    message = shifted_labels(cfg, SPLITS)
    assert message.startswith(
        f"{split}_dataloader.dataset.metainfo.classes names 'person' (nearest: 'Person'), which "
    )
    assert f'{tmp_path}/annotations/{split}.json does not list' in message
    cfg = named_classes(tmp_path, classes, **{split: 'Person carr bat'})
    assert "'person' (nearest: 'Person'), 'car' (nearest: 'carr'), 'boat' (nearest: 'bat'), which" in shifted_labels(
        cfg, SPLITS
    )
    assert shifted_labels(cfg, [name for name in SPLITS if name != split]) is None


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
        assert read != list(classes) and shifted_labels(cfg, ['train']) is not None


def test_other_ways_to_number_classes_wrongly(tmp_path):
    found = shifted_labels(named_classes(tmp_path, ('car', 'boat', 'person')), ['train'])
    assert "metainfo.classes are numbered 'car', 'boat', 'person', and " in found
    assert "lists them as 'person', 'car', 'boat'" in found
    assert "write ('person',)" in shifted_labels(named_classes(tmp_path, 'person'), ['train'])
    assert shifted_labels(named_classes(tmp_path, ['car', 'boat']), SPLITS) is None  # the others are left out
    cfg = named_classes(tmp_path, ('person', 'boat'))
    other = named_classes(tmp_path, ('person', 'boat'), val='boat person')
    cfg.val_evaluator.ann_file = f'{tmp_path}/other.json'
    (tmp_path / 'annotations/val.json').rename(tmp_path / 'other.json')
    cfg.val_dataloader.dataset.ann_file = 'annotations/train.json'
    assert f"and {tmp_path}/other.json lists them as 'boat', 'person'" in shifted_labels(cfg, SPLITS)
    assert shifted_labels(other, ['train', 'test']) is None


def test_names_of_coco_for_other_data(tmp_path):
    cfg = named_classes(tmp_path, ())
    for split in SPLITS:
        del cfg[f'{split}_dataloader'].dataset['metainfo']
    found = shifted_labels(cfg, SPLITS)
    assert "names 'bicycle' (nearest: " in found and 'and 69 more' in found and len(found) < 900
    assert "It lists 'person', 'car', 'boat'. " in found


def test_classes_of_wrapped_data_and_of_other_kinds(tmp_path):
    cfg = named_classes(tmp_path, ('Person',))
    cfg.train_dataloader.dataset = dict(type='RepeatDataset', times=2, dataset=cfg.train_dataloader.dataset)
    assert shifted_labels(cfg, ['train']).startswith('train_dataloader.dataset.dataset.metainfo.classes names')
    for kind in ('CustomDataset', 'XMLDataset', 'NoSuchDataset'):
        cfg.train_dataloader.dataset.dataset.type = kind
        assert shifted_labels(cfg, ['train']) is None
    assert shifted_labels(dict(val_dataloader=None), SPLITS) is None
