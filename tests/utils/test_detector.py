import cv2
import numpy as np
import pytest
import torch
from mmengine.structures import InstanceData

from rebnn_mm.utils.detector import check_input, load_detector, paint
from tests.refusal import refusal


@pytest.fixture
def white(tmp_path):
    path = tmp_path / 'white.png'
    cv2.imwrite(str(path), np.full((100, 200, 3), 255, np.uint8))
    return path


def objects(*boxes):
    return InstanceData(
        bboxes=torch.tensor([box for box, _ in boxes]).reshape(-1, 4).float(),
        labels=torch.tensor([label for _, label in boxes]).long(),
        scores=torch.full((len(boxes),), 0.5),
    )


def test_boxes_lie_where_the_image_was_scaled_to(white):
    painted = paint(white, objects(([20, 40, 60, 90], 0), ([120, 30, 180, 70], 1)), ('one', 'two'), width=800)
    assert painted.shape == (400, 800, 3)
    rows, columns = (painted != 255).any(axis=2).nonzero()
    for half, (left, right, bottom) in ((columns < 400, (80, 240, 360)), (columns >= 400, (480, 720, 280))):
        # The text above the box is narrower than it.
        assert (columns[half].min(), columns[half].max(), rows[half].max()) == (left, right, bottom)


def test_nothing_found_is_the_image_itself(white):
    assert (paint(white, objects(), ('one', 'two'), width=400) == 255).all()


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
    ('change', 'sentence'),
    [
        ('', '{0}/cut.pth cannot be read as a checkpoint: '),
        ("conv_cfg=dict(type='ReBNNConv')", "model.backbone.conv_cfg.type='ReBNNConv' is not registered (model). Did"),
        ("conv_cfg=dict(type='ReBNNConv2d', gama=0)", "ReBNNConv2d: no option 'gama'"),
        ('dept=18', "model.backbone of type ResNet: no option 'dept'. Did you mean 'depth'?"),
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
