"""Our configs by scope: as a base, from mmengine's hub, in an inferencer, in the lists of models."""

import pytest
from mmengine.config import Config
from mmengine.hub import get_config
from mmengine.infer import BaseInferencer
from mmengine.registry import DATASETS, init_default_scope

from rebnn_mm.utils.config_file import get_config_dir

FLAT, FOLDER = 'coco/faster_rcnn_r18_rebnn_coco.py', 'bccd/faster_rcnn_r18_rebnn_bccd.py'


@pytest.mark.parametrize('name', [FLAT, FOLDER, 'cifar10/resnet20.py'])
def test_base_by_scope_is_the_base_by_path(name, tmp_path):
    mine = tmp_path / 'mine.py'
    texts = []
    for base in (f'rebnn_mm::{name}', str(get_config_dir() / name)):
        mine.write_text(f'_base_ = {base!r}\nmodel = dict(test_cfg=dict(mine=1))\n')
        texts.append(Config.fromfile(mine).pretty_text)
    assert texts[0] == texts[1]
    assert 'mine=1' in texts[0]


@pytest.mark.parametrize('name', [FLAT, FOLDER])
def test_hub_reads_our_configs(name):
    assert get_config(f'rebnn_mm::{name}').to_dict() == Config.fromfile(get_config_dir() / name).to_dict()


def test_hub_still_reads_those_of_others():
    pytest.importorskip('mmdet')
    assert get_config('mmdet::ssd/ssd300_coco.py').model.type == 'SingleStageDetector'


def test_parts_of_a_base_are_built_in_the_scope_that_it_names(tmp_path):
    pytest.importorskip('mmdet')
    mine = tmp_path / 'mine.py'
    mine.write_text(
        f"_base_ = 'rebnn_mm::{FOLDER}'\n"
        "train_dataloader = dict(dataset=dict(data_root='', ann_file='a.json', lazy_init=True))\n"
    )
    cfg = Config.fromfile(mine)
    init_default_scope(cfg.default_scope)
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    assert type(dataset).__module__.startswith('mmdet.')


def test_inferencer_takes_a_config_by_scope():
    apis = pytest.importorskip('mmdet.apis')
    cfg = get_config(f'rebnn_mm::{FOLDER}')
    cfg.model.backbone.init_cfg = cfg.model.roi_head.shared_head.init_cfg = None
    inferencer = apis.DetInferencer(cfg, device='cpu', show_progress=False)
    binary = [name for name, part in inferencer.model.named_modules() if type(part).__name__ == 'ReBNNConv2d']
    assert len(binary) == 17


def test_lists_of_models_know_ours():
    assert 'faster_rcnn_r18_rebnn_coco' in BaseInferencer.list_models('rebnn_mm')


@pytest.mark.parametrize('read', [Config.fromfile, get_config])
def test_a_name_that_is_none_gets_those_that_come_close(read, tmp_path):
    wrong = 'rebnn_mm::faster_rcnn_r18_rebn_coco.py'
    (tmp_path / 'mine.py').write_text(f'_base_ = {wrong!r}\n')
    with pytest.raises(FileNotFoundError, match='Did you mean rebnn_mm::coco/faster_rcnn_r18_rebnn_coco.py'):
        read(wrong if read is get_config else tmp_path / 'mine.py')
