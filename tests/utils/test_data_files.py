import pytest
from mmengine.config import Config

from rebnn_mm.utils.data_files import check_data, data_paths
from tests.coco_config import coco_config
from tests.refusal import refusal


def make_coco(root):
    (root / 'annotations').mkdir(parents=True)
    for split in ('train', 'val'):
        (root / 'annotations' / f'instances_{split}2017.json').touch()
        (root / f'{split}2017').mkdir()


def test_names_the_file_the_fix_and_every_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = refusal(check_data, coco_config(), ['train', 'val'])
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
    options = refusal(check_data, cfg, ['train', 'val', 'test']).split('--cfg-options ')[1].split('. ')[0].split()
    pairs = (option.replace('/path/to/coco', str(tmp_path / 'elsewhere')).split('=') for option in options)
    cfg.merge_from_dict(dict(pairs))
    assert refusal(check_data, cfg, ['train', 'val', 'test']) is None


def test_complete_data_is_silent_and_each_missing_part_is_found(tmp_path):
    make_coco(tmp_path)
    cfg = coco_config(root=f'{tmp_path}/')
    assert refusal(check_data, cfg, ['train', 'val', 'test']) is None
    (tmp_path / 'val2017').rmdir()
    assert refusal(check_data, cfg, ['train']) is None
    message = refusal(check_data, cfg, ['train', 'val'])
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
        message = refusal(check_data, dict(val_evaluator=evaluator), ['val'])
        assert message.startswith(f'no annotations at {tmp_path}/val.json (val_evaluator.')
        assert '.0.ann_file=' in message


def test_other_data_sets_are_not_called_coco():
    blood = dict(data_root='data/blood/', ann_file='annotations/instances_train.json', type='CocoDataset')
    message = refusal(check_data, dict(train_dataloader=dict(dataset=blood)), ['train'])
    assert 'Put the data set at data/blood/' in message
    assert 'COCO 2017' not in message and 'make demo' not in message


def test_classification_sets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    imagenet = dict(type='ImageNet', data_root='data/imagenet', split='train')
    assert refusal(check_data, dict(train_dataloader=dict(dataset=imagenet)), ['train']).startswith(
        'no data at data/imagenet (train_dataloader.dataset.data_root'
    )
    folder = dict(type='CustomDataset', data_prefix=str(tmp_path / 'train'))
    assert str(tmp_path / 'train') in refusal(check_data, dict(train_dataloader=dict(dataset=folder)), ['train'])
    downloads = dict(type='CIFAR10', data_root='data/cifar10')
    assert refusal(check_data, dict(train_dataloader=dict(dataset=downloads)), ['train']) is None
    downloads['download'] = False
    assert 'data/cifar10' in refusal(check_data, dict(train_dataloader=dict(dataset=downloads)), ['train'])


def test_cifar10_archive_is_named_with_its_source(tmp_path):
    images = dict(type='CIFAR10Archive', data_root=str(tmp_path), data_prefix=dict(root='cifar-10-batches-py'))
    message = refusal(check_data, dict(train_dataloader=dict(dataset=images)), ['train'])
    assert message.startswith(f'no data at {tmp_path}/cifar-10-batches-py (train_dataloader.dataset.data_prefix.root)')
    assert (
        f'Download https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz and unpack it to {tmp_path}, or' in message
    )
    (tmp_path / 'cifar-10-batches-py').mkdir()
    assert refusal(check_data, dict(train_dataloader=dict(dataset=images)), ['train']) is None


def test_remote_data_is_left_to_the_file_backend():
    remote = dict(type='CocoDataset', data_root='s3://bucket/coco/', ann_file='annotations/instances_train2017.json')
    assert refusal(check_data, dict(train_dataloader=dict(dataset=remote)), ['train']) is None


def test_a_config_without_the_split_is_fine():
    assert refusal(check_data, dict(val_dataloader=None, val_evaluator=None), ['train', 'val', 'test']) is None


def test_glue_is_named_with_its_source(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = dict(type='GLUEDataset', task='qnli', data_root='data/glue')
    cfg = Config(
        dict(
            train_dataloader=dict(dataset=dict(ann_file='QNLI/train.tsv', **rows)),
            val_dataloader=dict(dataset=dict(ann_file='QNLI/dev.tsv', **rows)),
        )
    )
    message = refusal(check_data, cfg)
    assert message.startswith('no rows at data/glue/QNLI/train.tsv (train_dataloader.dataset.ann_file, looked up from')
    assert 'Get QNLI from https://gluebenchmark.com/tasks and unpack it to data/glue, or point to your' in message
    assert '--cfg-options train_dataloader.dataset.data_root=/path/to/data/ val_dataloader' in message
