import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope

from rebnn_mm.utils.detector import check_input, load_detector
from tests.refusal import refusal
from tests.tools.conftest import DETECTOR


@pytest.fixture
def white(tmp_path):
    path = tmp_path / 'white.png'
    cv2.imwrite(str(path), np.full((100, 200, 3), 255, np.uint8))
    return path


def test_the_first_unfit_file_is_named(white, tmp_path):
    checkpoint = tmp_path / 'a.pth'
    checkpoint.touch()
    text = tmp_path / 'a.jpg'
    text.write_text('no image')
    assert refusal(check_input, white, None, str(checkpoint)) is None
    assert refusal(check_input, white, None, 'b.pth') == 'no checkpoint at b.pth.'
    assert refusal(check_input, white, 'no/such.py', 'b.pth').startswith('no config file at no/such.py.')
    assert refusal(check_input, white, text, 'b.pth').startswith(f'{text} cannot be read: ')
    assert (
        refusal(check_input, text, None, str(checkpoint))
        == f'{text} cannot be read as an image. Name a JPEG or PNG file.'
    )


def test_a_classifier_is_refused(white, tmp_path):
    config = tmp_path / 'classifier.py'
    config.write_text("default_scope = 'mmpretrain'")
    assert refusal(check_input, white, str(config), 'b.pth').startswith(f'{config} is the config of a classifier')


@pytest.mark.parametrize(
    ('stored', 'sentence'),
    [
        ({'state_dict': {}}, '{0} does not hold the config of its network. Name that before it.'),
        ({'meta': {}}, '{0} does not hold the config of its network. Name that before it.'),
        ({'meta': {'cfg': "default_scope = 'mmpretrain'"}}, 'what {0} holds is the config of a classifier, which'),
    ],
    ids=['weights', 'no config', 'classifier'],
)
def test_a_checkpoint_alone_has_to_hold_the_config_of_a_detector(stored, sentence, tmp_path):
    pytest.importorskip('mmdet')
    path = str(tmp_path / 'weights.pth')
    torch.save(stored, path)
    assert refusal(load_detector, None, path, 'cpu').startswith(sentence.format(path))


@pytest.mark.parametrize(
    ('change', 'sentence'),
    [
        ('', '{0}/cut.pth cannot be read as a checkpoint: '),
        ("conv_cfg=dict(type='ReBNNConv')", "model.backbone.conv_cfg.type='ReBNNConv' is not registered (model). Did"),
    ],
)
def test_a_broken_checkpoint_or_config_is_one_sentence(change, sentence, tmp_path):
    pytest.importorskip('mmdet')
    config, checkpoint = tmp_path / 'mine.py', tmp_path / 'cut.pth'
    base = "_base_ = 'mmdet::retinanet/retinanet_r18_fpn_1x_coco.py'\n"
    config.write_text(f'{base}model = dict(backbone=dict(init_cfg=None, {change}))')
    checkpoint.write_bytes(b'PK\x03\x04, and the rest is lost')
    if change:
        torch.save({'state_dict': {}, 'meta': {}}, checkpoint)
    line = refusal(load_detector, str(config), str(checkpoint), 'cpu')
    assert line.startswith(sentence.format(tmp_path)) and '\n' not in line


def test_the_test_set_may_be_wrapped(tmp_path):
    pytest.importorskip('mmdet')
    config, checkpoint = tmp_path / 'wrapped.py', tmp_path / 'a.pth'
    config.write_text(f"""{DETECTOR.format(root='')}
test_dataloader['dataset'] = dict(
    type='ConcatDataset', datasets=[dict(type='CocoDataset', pipeline=val_dataloader['dataset']['pipeline'])]
)
""")
    cfg = Config.fromfile(config)
    init_default_scope('mmdet')
    torch.save(dict(state_dict=MODELS.build(cfg.model).state_dict()), checkpoint)
    found = load_detector(str(config), str(checkpoint), 'cpu')(np.zeros((96, 128, 3), np.uint8))
    assert len(found['predictions'][0]['scores']) == len(found['predictions'][0]['bboxes'])
