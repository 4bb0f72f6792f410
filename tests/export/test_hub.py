"""Checkpoints of images on the Hugging Face hub: a folder gives the model back, and runs nobody's code."""

import json
import sys

import huggingface_hub as hf
import pytest
import torch
from mmengine.config import Config

from rebnn_mm.cli import save_pretrained
from rebnn_mm.export.hub import HubModel, keep_parts

CONFIG = """
default_scope = 'mmpretrain'
work_dir = '/somebody/elses/folder'
method = dict(type='rebnn_mm.ReBNNConv2d')
model = dict(
    type='ImageClassifier',
    backbone=dict(type='ResNet', depth=18, base_channels=4, stem_channels=4, out_indices=(3,), conv_cfg=method),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=2, in_channels=32, topk=(1,)),
    data_preprocessor=dict(mean=[0, 0, 0], std=[1, 1, 1], to_rgb=True, num_classes=2))
test_dataloader = dict(batch_size=4, dataset=dict(
    type='CustomDataset', data_root='/somebody/elses/data', metainfo=dict(classes=('cat', 'dog')),
    pipeline=[dict(type='LoadImageFromFile'), dict(type='Resize', scale=(32, 32)), dict(type='PackInputs')]))
"""


@pytest.fixture(scope='module')
def files(tmp_path_factory):
    """A config and a checkpoint of a small binary classifier."""
    pytest.importorskip('mmpretrain')
    folder = tmp_path_factory.mktemp('classifier')
    (folder / 'small_rebnn.py').write_text(CONFIG)
    torch.manual_seed(0)
    model = HubModel(Config.fromfile(folder / 'small_rebnn.py')).model
    torch.save(dict(state_dict=model.state_dict(), meta={}), folder / 'epoch_1.pth')
    return folder


def made(files):
    return HubModel.from_checkpoint(
        str(files / 'small_rebnn.py'), str(files / 'epoch_1.pth'), {'scores': {'top-1': 9}}
    )


def test_a_folder_gives_the_model_back(files, tmp_path):
    model, images = made(files), torch.randn(2, 3, 32, 32)
    model.save_pretrained(tmp_path / 'cats')
    again = HubModel.from_pretrained(tmp_path / 'cats')
    assert not again.training and again.classes == ['cat', 'dog']
    assert torch.equal(again(images, mode='tensor')[0], model(images, mode='tensor')[0])
    assert again.cfg.test_dataloader.dataset.pipeline[1].scale == (32, 32)
    assert 'somebody' not in (tmp_path / 'cats' / 'config.json').read_text()
    card = hf.ModelCard.load(tmp_path / 'cats' / 'README.md')
    assert card.data.pipeline_tag == 'image-classification' and '| score | top-1 9.0 |' in card.text


def test_a_checkpoint_for_the_tools_comes_out(files, tmp_path):
    made(files).write_checkpoint(tmp_path / 'cats.pth')
    loaded = torch.load(tmp_path / 'cats.pth', weights_only=False)
    first = torch.load(files / 'epoch_1.pth', weights_only=False)['state_dict']
    assert all(torch.equal(value, first[key]) for key, value in loaded['state_dict'].items())
    assert loaded['meta']['dataset_meta']['classes'] == ['cat', 'dog']
    assert Config.fromstring(loaded['meta']['cfg'], '.py').model.head.num_classes == 2


def test_lost_weights_are_not_made_up(files, tmp_path):
    from safetensors.torch import load_file, save_file

    made(files).save_pretrained(tmp_path)
    tensors = load_file(tmp_path / 'model.safetensors')
    save_file({key: value for key, value in tensors.items() if 'layer1' not in key}, tmp_path / 'model.safetensors')
    with pytest.raises(RuntimeError, match='layer1'):
        HubModel.from_pretrained(tmp_path)


def test_a_config_of_a_stranger_names_registered_classes_only(files, tmp_path):
    made(files).save_pretrained(tmp_path)
    config = json.loads((tmp_path / 'config.json').read_text())
    config['network']['model']['neck'] = dict(type='subprocess.Popen', args=['touch', str(tmp_path / 'ran')])
    (tmp_path / 'config.json').write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"the config names 'subprocess.Popen', which is not a registered class"):
        HubModel.from_pretrained(tmp_path)
    assert not (tmp_path / 'ran').exists()


def test_push_uploads_the_same_files(files, monkeypatch):
    seen = {}

    class Api:
        def __init__(self, token=None):
            pass

        def create_repo(self, *, repo_id, private, exist_ok):
            return hf.RepoUrl(f'https://huggingface.co/{repo_id}')

        def upload_folder(self, *, repo_id, folder_path, **_):
            seen[repo_id] = sorted(path.name for path in folder_path.iterdir())

    monkeypatch.setattr('huggingface_hub.hub_mixin.HfApi', Api)
    made(files).push_to_hub('owner/cats')
    assert seen == {'owner/cats': ['README.md', 'config.json', 'model.safetensors']}


def test_the_command_writes_the_folder(files, tmp_path, monkeypatch, capsys):
    names = [str(files / 'small_rebnn.py'), str(files / 'epoch_1.pth'), str(tmp_path / 'cats')]
    monkeypatch.setattr(sys, 'argv', ['rebnn save-pretrained', *names])
    save_pretrained.main()
    assert capsys.readouterr().out.strip().endswith('README.md, config.json, model.safetensors')
    assert HubModel.from_pretrained(tmp_path / 'cats').classes == ['cat', 'dog']


def test_without_the_library_the_command_says_so(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, 'huggingface_hub', None)
    monkeypatch.delitem(sys.modules, 'rebnn_mm.export.hub')
    names = [str(files / 'small_rebnn.py'), str(files / 'epoch_1.pth'), str(tmp_path / 'cats')]
    monkeypatch.setattr(sys, 'argv', ['rebnn save-pretrained', *names])
    with pytest.raises(SystemExit):
        save_pretrained.main()
    assert "huggingface_hub is not installed. Run: pip install 'rebnn_mm[hub]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ('part', 'words'),
    [
        (dict(type='HuggingFaceClassifier', model_name='owner/name'), "model_name='owner/name'"),
        (dict(type='HuggingFaceClassifier', model_name='.', trust_remote_code=True), 'trust_remote_code=True'),
        (dict(type='mmdet.LAD', teacher_ckpt='here'), "teacher_ckpt='here'"),
    ],
    ids=['hub', 'code', 'pickle'],
)
def test_a_config_of_a_stranger_reads_nothing_else(part, words):
    cfg = Config(dict(model=dict(type='ImageClassifier', backbone=part)))
    with pytest.raises(ValueError, match=f'^the config has {words}: a model that reads anything else'):
        HubModel(cfg)


@pytest.mark.parametrize('real', [False, True], ids=['plain', 'binarized'])
def test_a_teacher_and_first_weights_stay_at_home(real):
    backbone = dict(type='A', init_cfg=dict(type='Pretrained', checkpoint='/me/a.pth'))
    own = dict(backbone=backbone, neck=[dict(type='B', pretrained='/me/b.pth')])
    teaching = dict(
        student='FasterRCNN', teacher='/me/teacher.py', teacher_checkpoint='/me/t.pth', losses=[dict(type='C')]
    )
    kind = 'rebnn_mm.TeacherStudentDetector'
    types = dict(type='rebnn_mm.Binarized', real=kind) if real else dict(type=kind)
    left = dict(backbone=dict(type='A'), neck=[dict(type='B')])
    assert keep_parts(Config(dict(model=dict(**types, **own, **teaching)))).model.to_dict() == {
        **types, 'real' if real else 'type': 'FasterRCNN', **left
    }  # fmt: skip
