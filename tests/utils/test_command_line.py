import argparse
import os

import pytest

from rebnn_mm.utils.command_line import add_common_arguments, load_config, stop_if


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
