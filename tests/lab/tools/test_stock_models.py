"""What is found out of a stock model: the truth about a small one, and of one that fails its reason."""

from importlib import import_module
from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from torch import nn

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from lab.tools.stock_models import (
    STOCK,
    binary_config,
    check_model,
    keep_anchors,
    markdown,
    stock_config,
    swap,
    train,
)


def small(**backbone):
    """A classifier of an eighth of ResNet-18's width."""
    model = dict(
        type='ImageClassifier',
        backbone=dict(type='ResNet', depth=18, base_channels=8, stem_channels=8, out_indices=(3,), **backbone),
        neck=dict(type='GlobalAveragePooling'),
        head=dict(type='LinearClsHead', num_classes=10, in_channels=64, topk=(1,)),
    )
    optim = dict(type='AmpOptimWrapper', loss_scale='dynamic', optimizer=dict(type='SGD', lr=0.1))
    cfg = dict(model=model, optim_wrapper=optim, default_scope='mmpretrain', data_preprocessor=dict(num_classes=10))
    return Config(cfg)


@pytest.mark.slow
def test_a_model_is_swapped_trained_exported_and_timed():
    steps = []
    real = small()
    row = check_model(real, binary_config(real, 32), 32, steps.append)
    assert steps == ['swap', 'train', 'ship'] and not {key for key in row if key.startswith('no_')}
    assert (row['layers'], row['binary'], row['starving']) == (21, 16, 16)
    assert row['task'] == 'classification' and row['fp32_mb'] > 3 * row['packed_mb']
    assert row['ratio'][1] <= row['ratio'][2] and row['packed_ms'] > 0
    (line,) = markdown({'a::b/small': row}, ['a::b/small'])[2:]
    assert line.startswith(f'| small, 32 | 16 of 21, {row["share"]} % | yes | yes | ')


def test_a_model_is_swapped_and_trained():
    real = small()
    row = check_model(real, binary_config(real, 32), 32, steps=(swap, train))
    assert row['binary'] == 16 and row['train_seconds'] >= 0


def test_a_step_that_fails_has_its_reason_and_the_others_go_on():
    def train(*_):
        raise ValueError('the head wants 3 classes.\nAnd a trace | of it.')

    real = small()
    row = check_model(real, binary_config(real, 32), 32, steps=(train, swap))
    assert row['no_train'] == 'ValueError: the head wants 3 classes' and row['binary'] == 16
    assert f'| no: {row["no_train"]} |' in markdown({'small': row}, ['small'])[2]


def test_a_model_that_cannot_be_swapped_is_not_tried_further():
    real = small()
    row = check_model(real, binary_config(real, 32), 0)
    assert set(row) == {'size', 'no_swap'}


def test_what_was_not_tried_is_named():
    assert markdown({}, ['a::b/one', 'a::b/two'])[2:] == ['', 'Not tried yet: one, two.']


def test_they_exist():
    for name in STOCK:
        scope, _, path = name.partition('::')
        assert Path(import_module(scope).__file__).with_name('.mim').joinpath('configs', f'{path}.py').is_file()


def test_boxes_and_masks_are_where_a_detector_wants_them(tmp_path):
    real, cfg = stock_config('mmdet::rtmdet/rtmdet_tiny_8xb32-300e_coco', 64)
    assert cfg.model.real == real.model.type == 'RTMDet'
    assert swap(real, cfg, 64, tmp_path)['binary'] == 59


def test_a_proposal_head_gives_its_anchors_and_scores_that_differ():
    from mmdet.models import RPNHead

    model = nn.Module()
    model.rpn_head = RPNHead(in_channels=4, feat_channels=4)
    nn.init.normal_(model.rpn_head.rpn_cls.weight)
    nn.init.normal_(model.rpn_head.rpn_reg.weight)
    scores, moves = keep_anchors(model).rpn_head([torch.randn(1, 4, 8, 8, generator=torch.Generator().manual_seed(0))])
    assert not moves[0].any() and scores[0].unique().numel() > 8
