import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config

pytest.importorskip('mmpretrain')

from rebnn_mm.export.source import OWN_IMAGES, class_names, image_size, load_source
from tests.export.networks import CONFIG


@pytest.fixture
def files(tmp_path, classifier):
    """A config, and a checkpoint that names its classes."""
    config, checkpoint = tmp_path / 'tiny.py', tmp_path / 'tiny.pth'
    config.write_text(CONFIG)
    state = {key: value[:2] if key.startswith('head.') else value for key, value in classifier.state_dict().items()}
    torch.save({'state_dict': state, 'meta': {'dataset_meta': {'classes': ['no', 'yes']}}}, checkpoint)
    return str(config), str(checkpoint)


def test_the_size_of_a_config_without_a_resize(files):
    """Else a photo would go into the classifier as it is."""
    bare = dict(test_dataloader=dict(dataset=dict(pipeline=[dict(type='LoadImageFromFile'), dict(type='PackInputs')])))
    unsaid, said = load_source(*files, options=bare), load_source(*files, options=bare, size=(16, 12))
    assert 'resize' not in unsaid.preprocess and 'the file takes images only with --size' in unsaid.notes[0]
    assert said.preprocess['resize'] == {'mode': 'exact', 'size': [12, 16]} and said.notes == []


def test_images_are_not_prepared_for_a_network_of_another_number_of_channels(files, tmp_path):
    config, checkpoint = files
    stored = torch.load(checkpoint)
    stored['state_dict']['backbone.conv1.weight'] = stored['state_dict']['backbone.conv1.weight'][:, :1]
    torch.save(stored, checkpoint)
    cv2.imwrite(str(tmp_path / 'a.png'), np.zeros((16, 12), np.uint8))
    dataset = {'test_dataloader.dataset.data_prefix': str(tmp_path), 'test_dataloader.dataset.with_label': False}
    grey = {'model.backbone.in_channels': 1, 'data_preprocessor': dict(to_rgb=False), **dataset}
    source = load_source(config, checkpoint, options=grey)
    assert 'tiny.py takes images of channels: 1' in source.notes[0] and source.examples == []
    for given, flag in ((dict(images=[config]), '--image'), (dict(calibration=[config]), '--int8')):
        with pytest.raises(ValueError, match=f'only those of 3 are prepared here: leave {flag} out'):
            load_source(config, checkpoint, options=grey, **given)


def test_model_images_and_classes(files, classifier, tmp_path):
    picture = np.random.default_rng(0).integers(0, 256, (16, 12, 3), np.uint8)
    cv2.imwrite(str(tmp_path / 'a.png'), picture)  # BGR
    source = load_source(*files, images=[str(tmp_path / 'a.png')])
    assert (source.config, source.classes, source.size, source.notes) == ('tiny.py', ['no', 'yes'], (16, 12), [])
    assert not source.model.training
    assert torch.equal(source.model.backbone.conv1.weight, classifier.backbone.conv1.weight)
    ((values, _),) = source.examples
    expected = (picture[..., ::-1].transpose(2, 0, 1) - np.array([[[120]], [[110]], [[100]]], np.float32)) / np.array(
        [[[60]], [[55]], [[50]]], np.float32
    )
    np.testing.assert_array_equal(values[0], expected.astype(np.float32))


def test_without_images_those_of_the_data_set_are_taken(files, tmp_path):
    assert load_source(*files)[3:5] == ([], '')  # the data set is not there
    for number in range(30):
        cv2.imwrite(str(tmp_path / f'{number:02}.png'), np.full((16, 12, 3), number, np.uint8))
    dataset = {'test_dataloader.dataset.data_prefix': str(tmp_path), 'test_dataloader.dataset.with_label': False}
    source = load_source(*files, options=dataset)
    assert source.origin == 'images of the test set' and len(source.examples) == OWN_IMAGES
    seen = [round(float(image.values[0, 0, 0, 0] * 60 + 120)) for image in source.examples]
    assert seen == list(range(0, 30, 3))
    other = load_source(*files, options=dataset, size=(8, 8))
    assert other.examples == []  # the file would be one of 8x8


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        (dict(config='gone.py'), 'no config file at gone.py'),
        (dict(checkpoint='gone.pth'), 'no checkpoint at gone.pth'),
        (dict(options={'model.head.num_classes': 3}), r'fills \d+ of the \d+ parameters.*head.fc'),
        (
            dict(options={'model.backbone.conv_cfg': dict(type='Conv2d')}),
            r'the layer backbone\.layer1\.0\.conv1, as 3 more, was trained with a quantizer that this model does not',
        ),
        (dict(images=['gone.jpg']), 'no image at gone.jpg'),
        (dict(images=['tiny.py']), 'cannot be read as an image'),
    ],
    ids=['config', 'checkpoint', 'another model', 'real layers', 'image', 'no image'],
)
def test_what_does_not_exist_or_fit_is_named(files, change, words, tmp_path):
    given = dict(config=files[0], checkpoint=files[1]) | change
    if 'images' in change:
        given['images'] = [path.replace('tiny.py', files[0]) for path in change['images']]
    with pytest.raises(ValueError, match=words):
        load_source(given.pop('config'), given.pop('checkpoint'), **given)


@pytest.mark.parametrize(
    ('steps', 'kind', 'size'),
    [
        ({'crop': [224, 192]}, 'ImageNet', (192, 224)),
        ({'resize': {'mode': 'exact', 'size': [300, 200]}}, 'CIFAR10', (200, 300)),
        ({}, 'CIFAR10Archive', (32, 32)),
        ({}, 'CustomDataset', (224, 224)),
    ],
    ids=['crop', 'exact', 'cifar', 'unknown'],
)
def test_the_size_of_an_image(steps, kind, size):
    assert image_size(Config(dict(test_dataloader=dict(dataset=dict(type=kind)))), steps) == size


@pytest.mark.parametrize(
    ('meta', 'dataset', 'expected'),
    [
        ({'dataset_meta': {'classes': ('a', 'b')}}, dict(type='CIFAR10'), ['a', 'b']),
        ({'dataset_meta': {'CLASSES': ['a']}}, {}, ['a']),
        ({'dataset_meta': {'classes': 'cell'}}, {}, ['cell']),
        ({}, dict(dataset=dict(metainfo=dict(classes='cell'))), ['cell']),
        ({}, dict(type='CIFAR10Archive'), ['airplane', 'automobile']),
        ({}, dict(type='NoSuchDataset'), []),
        ({}, dict(metainfo=dict(classes='names.txt')), ['dent', 'schön']),
        ({}, dict(type='ImageNet', classes='names.txt'), ['dent', 'schön']),
        ({}, dict(type='CustomDataset', classes=['a', 'b']), ['a', 'b']),
    ],
    ids=[
        'checkpoint',
        'old checkpoint',
        'one class',
        'config',
        'data set',
        'unknown',
        'file',
        'file of mmpretrain',
        'mmpretrain',
    ],
)
def test_class_names(meta, dataset, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'names.txt').write_text('dent\nschön\n', encoding='utf-8')
    cfg = Config(dict(test_dataloader=dict(dataset=dataset), default_scope='mmpretrain'))
    assert class_names(cfg, {'meta': meta})[:2] == expected
