"""What is said about encoders that are not there."""

from pathlib import Path

import pytest
from mmengine.config import Config

from rebnn_mm.utils.encoders import check_encoders
from tests.refusal import refusal

ROOT = Path(__file__).parents[2]


def config(encoder, teacher=None, tokenizer=None):
    dataset = dict(type='GLUEDataset', pipeline=[dict(type='TokenizeText', tokenizer=tokenizer or encoder)])
    both = dict(type='ConcatDataset', datasets=[dataset, dataset])
    taught = {'teacher': teacher} if teacher else {}
    return Config(
        dict(
            model=dict(encoder=encoder, **taught),
            train_dataloader=dict(dataset=dataset),
            val_dataloader=dict(dataset=both),
            test_dataloader=dict(dataset=dataset),
        )
    )


@pytest.fixture
def encoder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'data/minilm').mkdir(parents=True)
    (tmp_path / 'data/minilm/config.json').write_text('{}')
    return 'data/minilm'


def test_encoder_that_is_there(encoder):
    assert refusal(check_encoders, config(encoder), ['train', 'val', 'test']) is None


def test_options_it_names_do_fix_the_config(encoder):
    cfg = config('data/bert_base_uncased')
    message = refusal(check_encoders, cfg, ['train', 'val'])
    assert message.startswith('no encoder at data/bert_base_uncased (model.encoder). Get it (hf download google-bert/')
    options = message.split('--cfg-options ')[1].rstrip('.').split()
    assert len(options) == 4
    cfg.merge_from_dict(dict(option.replace('<dir>', encoder).split('=') for option in options))
    assert refusal(check_encoders, cfg, ['train', 'val']) is None


def test_missing_teacher_names_the_config_that_trains_it(encoder, tmp_path):
    teacher = 'work_dirs/minilm_sst2/pretrained'
    message = refusal(check_encoders, config(encoder, teacher), configs=str(ROOT / 'configs'))
    assert message.startswith(f'no encoder at {teacher} (model.teacher). Train it first: ENCODER=minilm TASK=sst2 ')
    assert 'configs/glue/real.py, or point to another one: --cfg-options model.teacher=<dir>.' in message
    assert refusal(check_encoders, config(encoder, teacher), coming=[teacher]) is None
    assert refusal(check_encoders, config(encoder, teacher), ['test']) is None  # testing needs no teacher
    (tmp_path / teacher).mkdir(parents=True)
    assert (
        refusal(check_encoders, config(encoder, teacher))
        == f'{teacher} (model.teacher) has no config.json, so it is not an encoder directory.'
    )


def test_hub_name_without_a_hub(encoder, monkeypatch):
    def offline(name, file):
        raise OSError('We could not connect.\nMore.')

    pytest.importorskip('transformers')
    monkeypatch.setattr('transformers.utils.hub.cached_file', offline)
    message = refusal(check_encoders, config('google-bert/some'), ['test'])
    assert message.startswith(
        'no encoder at google-bert/some (model.encoder): no such directory, and the hub does not '
    )
    assert (
        '(We could not connect). Give a local directory: --cfg-options model.encoder=<dir> test_dataloader' in message
    )
    assert '\n' not in message
    monkeypatch.setattr('transformers.utils.hub.cached_file', lambda name, file: 'cached')
    assert refusal(check_encoders, config('google-bert/some'), ['test']) is None


def test_models_without_encoder_are_not_asked():
    assert refusal(check_encoders, dict(model=dict(type='FasterRCNN', backbone=dict(type='BinaryResNet')))) is None
