"""The error for the user, and how a command ends with it."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from torch.utils.data import DataLoader, Dataset

from rebnn_mm.deploy import DeployError
from rebnn_mm.errors import UNREAD, CommandParser, RebnnError, did_you_mean, report_errors

ROOT = Path(__file__).parents[1]


def test_what_where_and_fix_are_one_text_and_apart():
    error = RebnnError('no option lr_mul.', 'paramwise_cfg', 'Did you mean lr_mult?')
    assert str(error) == 'paramwise_cfg: no option lr_mul. Did you mean lr_mult?'
    assert (error.what, error.where, error.fix) == ('no option lr_mul.', 'paramwise_cfg', 'Did you mean lr_mult?')
    assert str(RebnnError('no option lr_mul')) == 'no option lr_mul'
    assert isinstance(DeployError('no model'), RebnnError) and isinstance(error, ValueError)


def test_it_passes_between_processes():
    error = pickle.loads(pickle.dumps(RebnnError('broken', 'a.py', 'Repair it.')))
    assert (str(error), error.where) == ('a.py: broken. Repair it.', 'a.py')


def test_the_nearest_name_is_asked_for():
    known = ['ReBNNConv2d', 'BinaryConv2d']
    assert did_you_mean('rebnnconv', known) == "Did you mean 'ReBNNConv2d'?"
    assert did_you_mean('zzz', known) == ''
    assert did_you_mean('zzz', known, cutoff=0.0) != ''


def ending(error, capsys, monkeypatch, *flags):
    """Exit code and error output of a command that raises, and the words that it sees."""
    monkeypatch.setattr(sys, 'argv', ['rebnn train', 'a.py', *flags])
    seen = []

    @report_errors
    def main():
        seen.extend(sys.argv[1:])
        raise error

    with pytest.raises(SystemExit) as stopped:
        main()
    return stopped.value.code, capsys.readouterr().err, seen


def test_a_command_ends_with_one_line(capsys, monkeypatch):
    assert ending(RebnnError('broken.'), capsys, monkeypatch) == (1, 'rebnn train: broken.\n', ['a.py'])
    assert ending(KeyboardInterrupt(), capsys, monkeypatch)[:2] == (130, 'rebnn train: stopped.\n')
    assert ending(OSError(28, 'No space left', 'a'), capsys, monkeypatch)[0] == 1


class Unreadable(Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 1

    def __getitem__(self, index):
        raise self.error


@pytest.mark.parametrize('error', [FileNotFoundError(2, 'No such file', 'a.jpg'), RebnnError('no box', 'a.jpg')])
def test_an_error_in_a_worker_of_a_loader_ends_with_the_same_line(error, capsys, monkeypatch):
    with pytest.raises(type(error)) as found:
        list(DataLoader(Unreadable(error), num_workers=1))
    assert ending(found.value, capsys, monkeypatch) == ending(error, capsys, monkeypatch)


@pytest.mark.parametrize('flush', [True, False])
@pytest.mark.parametrize('taker', ['reader', 'disk'])
def test_output_that_nothing_takes_ends_a_command_without_a_traceback(flush, taker):
    """As with ``| head``, which says nothing, or a full disk, which one line tells."""
    code = 'import runpy, sys; sys.argv[0] = "rebnn zoo"; report_errors = runpy.run_path(sys.argv[1])["report_errors"]'
    command = [sys.executable, '-c', f'{code}; report_errors(lambda: print(1, flush={flush}))()']
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, 'w') if taker == 'reader' else open('/dev/full', 'w') as out:
        done = subprocess.run(
            [*command, ROOT / 'rebnn_mm/errors.py'],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            env={name: value for name, value in os.environ.items() if name != 'PYTHONUNBUFFERED'},
            check=False,
        )
    expected = (UNREAD, '') if taker == 'reader' else (1, 'rebnn zoo: [Errno 28] No space left on device\n')
    assert (done.returncode, done.stderr) == expected


@pytest.mark.parametrize('closed', ['stdout', 'stderr'])
def test_a_closed_output_is_one_that_nobody_reads(closed, monkeypatch):
    monkeypatch.setattr(sys, 'argv', ['rebnn ops'])
    monkeypatch.setattr(sys, closed, None)
    report_errors(lambda: print('found', getattr(sys, closed).isatty(), file=getattr(sys, closed)))()


def test_only_the_first_process_speaks(capsys, monkeypatch):
    monkeypatch.setenv('RANK', '1')
    assert ending(RebnnError('broken.'), capsys, monkeypatch)[:2] == (1, '')


def test_a_bug_keeps_its_traceback(capsys, monkeypatch):
    with pytest.raises(ValueError, match='a bug'):
        ending(ValueError('a bug'), capsys, monkeypatch)


@pytest.mark.parametrize('command', [['run', 'nowhere.onnx', 'a.jpg'], ['zoo', 'cats']])
def test_a_traceback_is_there_for_who_asks(command):
    for flags, lines in (([], 1), (['--traceback'], 5)):
        done = subprocess.run(
            [sys.executable, 'rebnn_command.py', *command, *flags],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1 and len(done.stderr.splitlines()) >= lines
        assert ('Traceback' in done.stderr) == bool(flags)


def test_it_needs_neither_torch_nor_the_package():
    code = "import sys; sys.path[:0] = ['rebnn_mm']; import errors; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, '-c', code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize(
    ('words', 'sentence'),
    [
        (['--score-thresh', '0.4'], "unrecognized arguments: --score-thresh 0.4. Did you mean '--score-thr'?"),
        (['--score'], "unrecognized arguments: --score. Did you mean '--score-thr'?"),  # no abbreviations
        (['--conf', '0.4'], 'unrecognized arguments: --conf 0.4. rebnn run --help lists what it takes.'),
        (['--score-thr', 'x'], "argument --score-thr: invalid float value: 'x'"),
    ],
)
def test_a_mistake_in_the_options_is_one_line(words, sentence, capsys):
    parser = CommandParser(prog='rebnn run', description='first\nsecond')
    parser.add_argument('--score-thr', type=float)
    with pytest.raises(SystemExit) as end:
        parser.parse_args(words)
    assert (end.value.code, capsys.readouterr().err) == (2, f'rebnn run: {sentence}\n')
    assert 'first\nsecond' in parser.format_help()


def test_a_missing_option_is_not_suggested_as_itself(capsys):
    parser = CommandParser(prog='rebnn convert')
    parser.add_argument('--src', required=True)
    parser.add_argument('--dest', required=True)
    with pytest.raises(SystemExit):
        parser.parse_args(['folder'])
    sentence = 'the following arguments are required: --src, --dest. rebnn convert --help lists what it takes.'
    assert capsys.readouterr().err == f'rebnn convert: {sentence}\n'


def test_every_command_reads_its_options_that_way():
    """The check of the environment imports nothing of the package, which may be broken."""
    sources = {path.name: path.read_text() for path in (ROOT / 'rebnn_mm').rglob('*.py')}
    own = {name for name, text in sources.items() if 'argparse.ArgumentParser(' in text}
    assert own == {'environment.py'}
