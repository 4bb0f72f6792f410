import mmcv
import numpy as np
import pytest
from mmengine.config import Config

from rebnn_mm.export.preprocess import read_preprocessing

LOAD = dict(type='LoadImageFromFile')
NORM = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375])


def config(*pipeline, **preprocessor):
    return Config(dict(test_dataloader=dict(dataset=dict(pipeline=list(pipeline))), data_preprocessor=preprocessor))


def test_a_classifier_of_imagenet():
    cfg = Config.fromfile('configs/imagenet/resnet18_rebnn_imagenet.py')
    assert read_preprocessing(cfg) == (
        {'resize': {'mode': 'short_edge', 'size': 256}, 'crop': [224, 224], 'channels': 'rgb', **NORM},
        [],
    )


def test_a_classifier_of_cifar_whose_images_come_as_rgb():
    steps = read_preprocessing(Config.fromfile('configs/cifar10/resnet20.py')).steps
    assert steps == {'resize': {'mode': 'exact', 'size': [32, 32]}, 'channels': 'rgb', **NORM}


def test_a_detector():
    pytest.importorskip('mmdet')
    steps = read_preprocessing(Config.fromfile('configs/coco/faster_rcnn_r18_rebnn_coco.py')).steps
    assert steps['resize'] == {'mode': 'keep_ratio', 'size': [1000, 600]}
    assert steps['channels'] == 'rgb' and steps['mean'] == NORM['mean']
    assert steps.get('pad') is None or steps['pad']['value'] == 0


def test_ssd_takes_one_size():
    pytest.importorskip('mmdet')
    steps = read_preprocessing(Config.fromfile('configs/coco/ssd300_vgg16_rebnn_coco.py')).steps
    assert steps['resize'] == {'mode': 'exact', 'size': [300, 300]}


@pytest.mark.parametrize(
    ('swap', 'order'), [({}, 'bgr'), ({'bgr_to_rgb': True}, 'rgb'), ({'to_rgb': True}, 'rgb')], ids=str
)
def test_files_are_read_as_bgr(swap, order):
    assert read_preprocessing(config(LOAD, **swap)).steps == {'channels': order}


def test_padding_and_a_number_for_both_sides():
    steps = read_preprocessing(config(LOAD, dict(type='Resize', scale=64), pad_size_divisor=32, pad_value=114)).steps
    assert steps['pad'] == {'divisor': 32, 'value': 114}
    assert steps['resize'] == {'mode': 'exact', 'size': [64, 64]}


@pytest.mark.parametrize(('kind', 'by'), [('EfficientNetCenterCrop', 'cv2'), ('TensorFlowCenterCrop', 'TensorFlow')])
def test_a_part_brought_to_a_size_is_a_resize_and_a_crop(kind, by):
    found = read_preprocessing(config(LOAD, dict(type=kind, crop_size=192, crop_padding=16)))
    assert found.steps == {'resize': {'mode': 'short_edge', 'size': 208}, 'crop': [192, 192], 'channels': 'bgr'}
    assert found.notes[0].startswith(f"The config resizes by {by}'s bicubic interpolation, the packed file by OpenCV")


@pytest.mark.parametrize(('keep_ratio', 'mode', 'notes'), [(True, 'keep_ratio', 1), (False, 'exact', 0)])
def test_sizes_that_are_rounded_down_are_noted(keep_ratio, mode, notes):
    found = read_preprocessing(config(LOAD, dict(type='FixScaleResize', scale=(64, 48), keep_ratio=keep_ratio)))
    assert found.steps['resize'] == {'mode': mode, 'size': [64, 48]}
    assert len(found.notes) == notes and all('FixScaleResize rounds sizes down' in note for note in found.notes)


def test_another_interpolation_is_noted():
    found = read_preprocessing(
        config(LOAD, dict(type='ResizeEdge', scale=256, backend='pillow', interpolation='bicubic'))
    )
    assert found.notes == [
        "The config resizes by pillow's bicubic interpolation, the packed file by OpenCV's bilinear: scores differ a "
        'little.'
    ]


@pytest.mark.parametrize(
    ('step', 'words'),
    [
        (dict(type='Pad', size_divisor=32, padding_mode='edge'), 'Pad.*no words for'),
        (dict(type='ResizeEdge', scale=256, edge='long'), 'edge.*no words for'),
        (dict(type='CenterCrop', crop_size=8, efficientnet_style=True), 'no words for'),
    ],
)
def test_a_step_that_cannot_be_stated_is_named(step, words):
    with pytest.raises(ValueError, match=words):
        read_preprocessing(config(LOAD, step))


def test_an_order_that_cannot_be_stated():
    crop, resize = dict(type='CenterCrop', crop_size=8), dict(type='Resize', scale=(4, 4))
    with pytest.raises(ValueError, match='has Resize where the packed format has no place for it'):
        read_preprocessing(config(LOAD, crop, resize))


def test_a_letterbox_comes_behind_resize_and_crop_in_the_order_of_the_network():
    pad = dict(type='Pad', size=(64, 32), pad_val=dict(img=(1.0, 2.0, 3.0)))
    steps = read_preprocessing(config(LOAD, dict(type='Resize', scale=32), pad, bgr_to_rgb=True)).steps
    assert steps['letterbox'] == {'value': [3, 2, 1], 'size': [64, 32]}
    with pytest.raises(ValueError, match='has CenterCrop where the packed format has no place for it'):
        read_preprocessing(config(LOAD, pad, dict(type='CenterCrop', crop_size=8)))


def test_the_pixels_of_a_letterbox_are_rounded_as_mmcv_rounds_them():
    pad = dict(type='Pad', size=(8, 8), pad_val=(123.675, 116.28, 103.53))
    letterbox = read_preprocessing(config(LOAD, pad)).steps['letterbox']
    padded = mmcv.impad(np.zeros((4, 4, 3), np.uint8), shape=(8, 8), pad_val=pad['pad_val'])
    assert letterbox['value'] == padded[-1, -1].tolist()


@pytest.mark.parametrize(('kind', 'resize'), [('CIFAR100', {'mode': 'exact', 'size': [32, 32]}), ('OwnImages', None)])
def test_of_data_sets_that_hold_images_only_cifar_says_their_size(kind, resize):
    cfg = config(dict(type='PackInputs'))
    cfg.test_dataloader.dataset.type = f'mmpretrain.{kind}'
    assert read_preprocessing(cfg).steps.get('resize') == resize


def test_steps_may_be_classes():
    resize = dict(type=mmcv.transforms.Resize, scale=(4, 8))
    steps = read_preprocessing(config(dict(type=mmcv.transforms.LoadImageFromFile), resize)).steps
    assert steps == {'resize': {'mode': 'exact', 'size': [4, 8]}, 'channels': 'bgr'}


def test_several_test_sets_that_prepare_images_alike():
    one = dict(type='CocoDataset', pipeline=[LOAD, dict(type='Resize', scale=(640, 480)), dict(type='PackDetInputs')])
    cfg = Config(dict(test_dataloader=dict(dataset=dict(type='ConcatDataset', datasets=[one, one]))))
    steps = read_preprocessing(cfg).steps
    assert steps['resize'] == {'mode': 'exact', 'size': [640, 480]} and steps['channels'] == 'bgr'
    cfg.test_dataloader.dataset.datasets[1].pipeline[1].scale = (320, 240)
    with pytest.raises(
        ValueError, match=r'^test_dataloader.dataset.datasets.1 prepares images differently from the first'
    ):
        read_preprocessing(cfg)


def test_a_config_that_tests_on_nothing_is_noted():
    assert read_preprocessing(Config(dict(model=dict(type='A')))).notes == [
        'The config has no test pipeline: the file takes images of any size as they are, in RGB order.'
    ]
