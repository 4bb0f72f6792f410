"""`rebnn unpack` as a user calls it."""

import pytest
import torch

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from mmengine.config import Config
from mmengine.registry import init_default_scope

from rebnn_mm.deploy.zoo import zoo_path
from rebnn_mm.export.exporter import export
from rebnn_mm.export.preprocess import read_preprocessing
from rebnn_mm.registry import MODELS
from tests.export.networks import lively
from tests.scripts import run_here

TOOL = 'rebnn unpack'

CONFIG = """
custom_imports = dict(imports=['rebnn_mm'])
default_scope = 'mmpretrain'
binary = dict(type='ReBNNConv2d')
first_stage = dict(num_stages=1, strides=(1,), dilations=(1,), out_indices=(0,))
model = dict(
    type='ImageClassifier',
    backbone=dict(type='ResNet', depth=18, stem_channels=8, base_channels=8, conv_cfg=binary, **first_stage),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=2, in_channels=8, topk=(1,)),
)
data_preprocessor = dict(mean=[0, 0, 0], std=[255, 255, 255], to_rgb=True)
pipeline = [dict(type='LoadImageFromFile'), dict(type='Resize', scale=(32, 32)), dict(type='PackInputs')]
test_dataloader = dict(dataset=dict(pipeline=pipeline))
"""


@pytest.fixture
def run(capsys):
    """What the command prints."""

    def call(*args: object) -> str:
        run_here(TOOL, *args)
        return capsys.readouterr().out

    return call


def test_a_file_becomes_a_checkpoint_whose_norms_know_the_images(run, tmp_path):
    config, file, out = tmp_path / 'small.py', tmp_path / 'small.onnx', tmp_path / 'new' / 'small.pth'
    config.write_text(CONFIG)
    cfg = Config.fromfile(config)
    init_default_scope('mmpretrain')
    trained = lively(MODELS.build(cfg.model))
    packed = export(
        trained, preprocess=read_preprocessing(cfg)[0], config='small.py', classes=['a', 'b'], size=(32, 32)
    )
    file.write_bytes(packed.data)

    printed = run(file, out, '--config', config, '--images', zoo_path('zoo:BloodImage_00021.jpg'))
    assert 'checked against the file' in printed and '5 batch norms have the statistics of the images' in printed
    checkpoint = torch.load(out, weights_only=True)
    assert checkpoint['meta']['dataset_meta']['classes'] == ('a', 'b')
    name = 'backbone.layer1.0.conv1.weight'
    weight = checkpoint['state_dict'][name]
    assert torch.equal(weight.sign(), trained.state_dict()[name].sign()) and weight[0].abs().unique().numel() == 1
    assert 'batch norms have no statistics' in run(file, out, '--config', config)


@pytest.mark.parametrize(
    ('model', 'options', 'sentence'),
    [
        ('zoo:blood-cell', [], 'did you mean zoo:blood-cells?'),
        ('zoo:blood-cells', ['--images', 'nowhere'], 'nowhere'),
        (zoo_path('zoo:blood-cells'), [], 'give it as --config'),
        ('zoo:blood-cells', ['--cfg-options', 'modle.x=1'], 'modle'),
    ],
)
def test_what_does_not_go_is_said_and_nothing_written(model, options, sentence, stop_tool, tmp_path):
    assert sentence in stop_tool(TOOL, model, tmp_path / 'out.pth', *options)
    assert not (tmp_path / 'out.pth').exists()
