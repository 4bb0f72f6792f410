import argparse
import os
import resource

import pytest

from rebnn_mm.utils.command_line import (
    add_common_arguments,
    add_options,
    load_config,
    read_config,
    stop_if,
    stopping_on_mistakes,
    unwritable,
)
from rebnn_mm.utils.config_mistake import Mistake


@pytest.fixture
def load(tmp_path, monkeypatch):
    monkeypatch.delenv('LOCAL_RANK', raising=False)

    def run(content, *flags):
        (tmp_path / 'mine.py').write_text(content)
        parser = argparse.ArgumentParser()
        parser.add_argument('config')
        add_common_arguments(parser)
        return load_config(parser.parse_args([str(tmp_path / 'mine.py'), *flags]))

    return run


def test_work_dir_is_the_flags_then_the_configs_then_the_name(load):
    assert load("work_dir = 'of_config'", '--work-dir', 'of_flag').work_dir == 'of_flag'
    assert load("work_dir = 'of_config'").work_dir == 'of_config'
    assert load('').work_dir == './work_dirs/mine'


def test_options_override_the_config(load):
    cfg = load("a = dict(b=1, c=[1])\nlauncher = 'none'", '--cfg-options', 'a.b=2', 'a.c=[3,4]', '--launcher', 'slurm')
    assert (cfg.a.b, cfg.a.c, cfg.launcher) == (2, [3, 4], 'slurm')


def test_local_rank_of_the_launcher_wins_over_the_flag(load, monkeypatch):
    load('', '--local-rank', '3')
    assert os.environ['LOCAL_RANK'] == '3'
    monkeypatch.setenv('LOCAL_RANK', '1')
    load('', '--local_rank', '2')
    assert os.environ['LOCAL_RANK'] == '1'


def test_stops_with_one_sentence_on_the_first_process_only(capsys, monkeypatch):
    stop_if(None)
    for rank, lines in (('0', 1), ('1', 0)):
        monkeypatch.setenv('RANK', rank)
        with pytest.raises(SystemExit) as stopped:
            stop_if('it is broken.')
        assert stopped.value.code == 1
        printed = capsys.readouterr().err
        assert printed.count('it is broken.') == lines


@pytest.mark.parametrize(
    ('flags', 'words'),
    [
        (['--cfg-options', 'modle.x=1'], "--cfg-options modle.x: the config has no 'modle'. Did you mean 'model'?"),
        (['--work-dir', '{}/mine.py/work'], 'cannot write to {}/mine.py/work: Not a directory ({}/mine.py).'),
        (['--work-dir', '{}/mine.py'], 'cannot write to {}/mine.py: Not a directory ({}/mine.py).'),
        (['--work-dir', '/proc/work'], 'cannot write to /proc/work: '),
    ],
)
def test_what_cannot_be_is_one_sentence_before_the_work(load, tmp_path, capsys, flags, words):
    with pytest.raises(SystemExit):
        load("model = dict(type='A')", *(flag.format(tmp_path) for flag in flags))
    (line,) = capsys.readouterr().err.splitlines()
    assert words.format(tmp_path, tmp_path) in line
    assert [file.name for file in tmp_path.iterdir()] == ['mine.py']


@pytest.mark.parametrize(
    ('base', 'config', 'words'),
    [
        ('a = 1\n', "_base_ = './base.py'\n\nb = epochs\n", "'epochs' is not defined (line 3 of {}/my.py)."),
        ('a = epochs\n', "_base_ = './base.py'\n", "'epochs' is not defined (line 1 of {}/base.py)."),
        ('a = (\n', "_base_ = './base.py'\n", ' ({}/base.py).'),
        ('a = [1]\n', "_base_ = './base.py'\na = dict(b=2)\n", ' ({}/my.py).'),
    ],
)
def test_a_broken_config_is_one_sentence_with_its_place(tmp_path, capsys, base, config, words):
    (tmp_path / 'base.py').write_text(base)
    (tmp_path / 'my.py').write_text(config)
    with pytest.raises(SystemExit):
        read_config(str(tmp_path / 'my.py'))
    said = capsys.readouterr().err
    assert f'{tmp_path}/my.py cannot be read: ' in said and said.endswith(words.format(tmp_path) + '\n')


def test_outputs_that_can_be_written_leave_no_trace(tmp_path):
    (tmp_path / 'old.pkl').write_text('old')
    assert unwritable(tmp_path / 'new' / 'deep' / 'a.pkl') is None
    assert unwritable(tmp_path / 'new' / 'deep', is_folder=True) is None
    assert unwritable(tmp_path, is_folder=True) is None
    assert unwritable(tmp_path / 'old.pkl') is None
    assert [file.read_text() for file in tmp_path.iterdir()] == ['old']


def test_outputs_that_cannot_be_written_are_named(tmp_path):
    assert unwritable(__file__, inputs=[None, 'new.py', __file__]) == (
        f'cannot write to {__file__}: it is an input. Name another file.'
    )
    assert unwritable(tmp_path) == f'cannot write to {tmp_path}: it is a folder. Name a file.'
    (tmp_path / 'file').touch()
    assert unwritable(tmp_path / 'file/a.pkl') == (
        f'cannot write to {tmp_path}/file/a.pkl: Not a directory ({tmp_path}/file).'
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))  # refuses every byte, as a full disk does
    try:
        found = unwritable(tmp_path / 'a.pkl')
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert found == f'cannot write to {tmp_path}/a.pkl: File too large ({tmp_path}).'


def test_a_mistake_stops_and_a_bug_does_not(capsys):
    with pytest.raises(SystemExit), stopping_on_mistakes():
        raise Mistake('it is misspelt.')
    assert capsys.readouterr().err.endswith(': it is misspelt.\n')
    with pytest.raises(ValueError, match='a bug'), stopping_on_mistakes():
        raise ValueError('a bug')


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
