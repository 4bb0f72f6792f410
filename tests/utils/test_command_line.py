import argparse
import os
import resource
import subprocess
import sys

import pytest
from mmengine.config import Config

from rebnn_mm.utils.command_line import (
    add_common_arguments,
    add_options,
    check_loops,
    check_writable,
    import_scope,
    load_config,
)
from tests.coco_config import coco_config
from tests.refusal import refusal

IMPORTED = """
from mmengine.config import Config
from rebnn_mm.utils.command_line import import_scope
import_scope(Config(dict(default_scope='mmdet')))
import mmdet.datasets, mmdet.evaluation
"""


@pytest.mark.slow
def test_a_library_says_nothing_on_its_extras():
    pytest.importorskip('mmdet')
    done = subprocess.run([sys.executable, '-c', IMPORTED], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ('', '')


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.delenv('LOCAL_RANK', raising=False)

    def run(content, *flags, sections=()):
        (tmp_path / 'mine.py').write_text(content)
        parser = argparse.ArgumentParser()
        parser.add_argument('config')
        add_common_arguments(parser)
        return load_config(parser.parse_args([str(tmp_path / 'mine.py'), *flags]), sections)

    return run


@pytest.mark.parametrize(
    ('scope', 'fix'),
    [('mmdet3', "Did you mean 'mmdet'?"), ('nowhere', 'Install it, or register it by custom_imports.')],
)
def test_a_scope_that_no_library_has_is_named_before_anything_is_built(scope, fix):
    said = refusal(import_scope, Config(dict(default_scope=scope)))
    assert said == f'default_scope={scope!r}: no installed library has this name. {fix}'


@pytest.mark.parametrize(
    ('launcher', 'name'), [('pytorch', 'RANK'), ('slurm', 'SLURM_PROCID'), ('mpi', 'OMPI_COMM_WORLD_LOCAL_RANK')]
)
def test_a_launcher_that_has_started_nothing_is_named(load, monkeypatch, launcher, name):
    monkeypatch.delenv(name, raising=False)
    said = refusal(load, '', '--launcher', launcher)
    assert (
        said == f'--launcher {launcher}: it has not started this process, which {name} would tell. '
        'Leave it out, or start the command by it.'
    )


def test_work_dir_is_the_flags_then_the_configs_then_the_name(load):
    assert load("work_dir = 'of_config'", '--work-dir', 'of_flag').work_dir == 'of_flag'
    assert load("work_dir = 'of_config'").work_dir == 'of_config'
    assert load('').work_dir == './work_dirs/mine'


def test_options_override_the_config(load, monkeypatch):
    monkeypatch.setenv('SLURM_PROCID', '0')
    cfg = load("a = dict(b=1, c=[1])\nlauncher = 'none'", '--cfg-options', 'a.b=2', 'a.c=[3,4]', '--launcher', 'slurm')
    assert (cfg.a.b, cfg.a.c, cfg.launcher) == (2, [3, 4], 'slurm')


def test_local_rank_of_the_launcher_wins_over_the_flag(load, monkeypatch):
    load('', '--local-rank', '3')
    assert os.environ['LOCAL_RANK'] == '3'
    monkeypatch.setenv('LOCAL_RANK', '1')
    load('', '--local_rank', '2')
    assert os.environ['LOCAL_RANK'] == '1'


@pytest.mark.parametrize(
    ('flags', 'words'),
    [
        (['--cfg-options', 'modle.x=1'], "--cfg-options modle.x: the config has no 'modle'. Did you mean 'model'?"),
        (['--work-dir', '{}/mine.py/work'], 'cannot write to {}/mine.py/work: Not a directory ({}/mine.py).'),
        (['--work-dir', '{}/mine.py'], 'cannot write to {}/mine.py: Not a directory ({}/mine.py).'),
        (['--work-dir', '/proc/work'], 'cannot write to /proc/work: '),
    ],
)
def test_what_cannot_be_is_one_sentence_before_the_work(load, tmp_path, flags, words):
    line = refusal(load, "model = dict(type='A')", *(flag.format(tmp_path) for flag in flags))
    assert words.format(tmp_path, tmp_path) in line
    assert [file.name for file in tmp_path.iterdir()] == ['mine.py']


def test_sections_that_lack_are_one_sentence(load):
    assert 'mine.py has no model and no train_dataloader. Take them over from' in refusal(
        load, '', sections=('model', 'train_dataloader')
    )


@pytest.mark.parametrize(
    ('key', 'words'),
    [
        ('val_cfg', ' has no val_dataloader and no val_evaluator. val_dataloader, val_cfg, '),
        ('test_cfg', 'test_evaluator go together: set all, or each to None.'),
    ],
)
def test_a_loop_that_lacks_a_part_is_one_sentence(key, words):
    assert words in refusal(check_loops, Config({key: {}}))
    assert refusal(check_loops, Config(dict(model=dict(type='A')))) is None


@pytest.mark.parametrize(
    ('key', 'value'),
    [('train_cfg.val_interval', 0), ('val_dataloader.batch_size', 0), ('test_dataloader.batch_size', -1)],
)
def test_counts_that_no_loop_can_take(key, value):
    cfg = coco_config('data/')
    cfg.update({name: {} for name in ('train_cfg', 'optim_wrapper', 'val_cfg', 'test_cfg')})
    assert refusal(check_loops, cfg) is None
    cfg.merge_from_dict({key: value})
    assert refusal(check_loops, cfg).startswith(f'{key}={value}: it must be at least 1')


def test_outputs_that_can_be_written_leave_no_trace(tmp_path):
    (tmp_path / 'old.pkl').write_text('old')
    assert refusal(check_writable, tmp_path / 'new' / 'deep' / 'a.pkl') is None
    assert refusal(check_writable, tmp_path / 'new' / 'deep', is_folder=True) is None
    assert refusal(check_writable, tmp_path, is_folder=True) is None
    assert refusal(check_writable, tmp_path / 'old.pkl') is None
    assert [file.read_text() for file in tmp_path.iterdir()] == ['old']


def test_outputs_that_cannot_be_written_are_named(tmp_path):
    assert refusal(check_writable, __file__, inputs=[None, 'new.py', __file__]) == (
        f'cannot write to {__file__}: it is an input. Name another file.'
    )
    assert refusal(check_writable, tmp_path) == f'cannot write to {tmp_path}: it is a folder. Name a file.'
    (tmp_path / 'file').touch()
    assert refusal(check_writable, tmp_path / 'file/a.pkl') == (
        f'cannot write to {tmp_path}/file/a.pkl: Not a directory ({tmp_path}/file).'
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # refuses every byte, as a full disk does
    try:
        found = refusal(check_writable, tmp_path / 'a.pkl')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found == f'cannot write to {tmp_path}/a.pkl: File too large ({tmp_path}).'


@pytest.mark.parametrize(
    'text', ["model.neck=dict(type='FPN',num_outs=5)", "neck=dict(type='FPN')", 'neck={}', 'a=[1,(2]', 'lr']
)
def test_options_that_cannot_be_read_are_named(capsys, text):
    parser = argparse.ArgumentParser()
    add_options(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(['--cfg-options', 'fine=[(1,2),(3,4)]', text])
    last = capsys.readouterr().err.splitlines()[-1]
    assert f'--cfg-options: {text!r} cannot be read. ' in last and last.endswith('as KEY.ENTRY=VALUE.')
    assert parser.parse_args(['--cfg-options', 'a.b=[(1,2)]', 'c=d']).cfg_options == {'a.b': [(1, 2)], 'c': 'd'}
