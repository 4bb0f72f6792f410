"""From a folder of images with boxes to a packed file by one command."""

import argparse
import gc
import io
import itertools
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stdout
from pathlib import Path

import onnx
import pytest
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from onnx import GraphProto
from rich.console import Console

pytest.importorskip('mmdet')

import rebnn_mm.export.trace  # noqa: F401  the same networks are then traced once, see conftest.py
from rebnn_mm.cli import fit
from rebnn_mm.cli.new_config_options import BASES
from rebnn_mm.deploy.onnx_file import read_onnx
from rebnn_mm.errors import RebnnError
from tests.datasets.painted import FORMS
from tests.scripts import ROOT, environment, run_here, run_script

SMALL = ('--size', 96, 64, '--epochs', 1)
BASE = """\
_base_ = 'rebnn_mm::one_bit/nano_bccd.py'
model = dict(
    backbone=dict(channels=(32, 32, 32, 32), depths=(1, 1, 1, 1)),
    neck=dict(in_channels=[32, 32, 32]),
    test_cfg=dict(score_thr=0.0),
)
train_dataloader = dict(num_workers=0, persistent_workers=False)
randomness = dict(seed=0)
"""
ALONE = dict(base=BASES['tiny'].format(''), teacher=False)


def options(data: Path, **changes: object) -> argparse.Namespace:
    nothing = dict.fromkeys(('out', 'train', 'val', 'test', 'start', 'augment', 'label_with'))
    given = dict(
        starts={}, base=BASES['tiny'].format('_taught'), teacher=None, size=(96, 64), epochs=2, negatives=True
    )
    return argparse.Namespace(data=data, **nothing | given | changes)


def test_the_configs_keep_the_best_epoch_and_stop_early(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    configs = fit.write(options(FORMS / 'yolo_roboflow'))
    assert list(map(str, configs)) == ['yolo_roboflow_teacher.py', 'yolo_roboflow.py']
    for config in map(Config.fromfile, configs):
        assert config.default_hooks.checkpoint.save_best == config.custom_hooks[-1].monitor
    assert config.model.teacher_checkpoint == 'work_dirs/yolo_roboflow_teacher/best.pth'
    assert list(map(str, fit.write(options(FORMS / 'yolo_roboflow', **ALONE)))) == ['yolo_roboflow.py']


@pytest.mark.parametrize(
    ('words', 'teacher'),
    [
        (['--augment', 'photos'], True),
        (['--augment', 'microscope'], False),
        (['--augment', 'microscope', '--teacher'], True),
        (['--augment', 'microscope', '--start', 'none'], True),
        (['--augment', 'microscope', '--base', 'nano'], True),
        (['--augment', 'none'], True),
    ],
)
def test_a_teacher_is_trained_where_it_pays(words, teacher, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'argv', ['rebnn fit', str(FORMS / 'yolo_roboflow'), *words, *map(str, SMALL)])
    *before, config = fit.write(fit.parse_args())
    assert bool(before) == teacher and ('teacher' in Config.fromfile(config).model) == teacher


def test_an_edited_config_is_kept(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    _, config = fit.write(options(FORMS / 'yolo_roboflow'))
    edited = config.read_text() + '\nrandomness = dict(seed=3)\n'
    config.write_text(edited)
    capsys.readouterr()
    assert fit.write(options(FORMS / 'yolo_roboflow', epochs=9))[-1] == config and config.read_text() == edited
    assert 'yolo_roboflow.py is kept as it was edited' in capsys.readouterr().out


def test_an_edited_config_says_whether_it_has_a_teacher(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    teacher, config = fit.write(options(FORMS / 'yolo_roboflow'))
    fit.write(options(FORMS / 'yolo_roboflow', **ALONE))
    with config.open('a') as file:
        file.write('randomness = dict(seed=3)\n')
    assert fit.write(options(FORMS / 'yolo_roboflow')) == [config] and teacher.is_file()


def test_what_is_trained_is_not_trained_again_and_another_config_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (config,) = fit.write(options(FORMS / 'yolo_roboflow', **ALONE))
    folder = fit.work_dir_of(config)
    folder.mkdir(parents=True)
    (folder / 'finished.txt').write_text(f'{fit.digest_of(config)}\n')
    fit.train(config, amp=False)
    assert capsys.readouterr().out.strip().endswith('yolo_roboflow.py is trained: work_dirs/yolo_roboflow/best.pth')
    fit.write(options(FORMS / 'yolo_roboflow', **ALONE, epochs=3))
    with pytest.raises(RebnnError, match='has a training of another yolo_roboflow.py, or of other labels. Remove it'):
        fit.train(config, amp=False)


def test_an_interrupted_training_does_not_go_on_with_other_labels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (config,) = fit.write(options(FORMS / 'yolo_roboflow', **ALONE))
    folder = fit.work_dir_of(config)
    asked = []

    def interrupted(name: str, *words: object) -> None:
        asked.append('--resume' in words)
        (folder / 'last_checkpoint').write_text('epoch_1.pth')
        raise KeyboardInterrupt

    monkeypatch.setattr(fit, 'run', interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            fit.train(config, amp=False)
    labels = config.with_name('yolo_roboflow_train.json')
    labels.write_text(labels.read_text().replace('disc', 'ball'))
    with pytest.raises(RebnnError, match='or of other labels. Remove it to train again'):
        fit.train(config, amp=False)
    assert asked == [False, True]
    (folder / 'last_checkpoint').unlink()  # nothing is kept yet, so it begins again
    with pytest.raises(KeyboardInterrupt):
        fit.train(config, amp=False)
    assert asked == [False, True, False]


@pytest.mark.parametrize('flags', [[], ['--traceback']])
def test_an_error_of_a_step_is_one_line_or_a_traceback(flags, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'argv', ['rebnn fit', str(FORMS / 'yolo_roboflow'), '--no-teacher', *map(str, SMALL)])
    (config,) = fit.write(fit.parse_args())
    folder = fit.work_dir_of(config)
    folder.mkdir(parents=True)
    (folder / 'finished.txt').write_text(f'{fit.digest_of(config)}\n')
    sys.argv += flags
    with pytest.raises(RebnnError if flags else SystemExit):
        fit.main()
    assert flags or 'rebnn export: no checkpoint at work_dirs/yolo_roboflow/best.pth' in capsys.readouterr().err


def test_a_second_fit_at_once_is_refused(tmp_path, monkeypatch, capsys):
    def end_of_fit() -> int:
        words = (FORMS / 'coco', '--no-teacher', *SMALL[:-1], next(epochs))
        monkeypatch.setattr(sys, 'argv', ['rebnn fit', *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            fit.main()
        return stopped.value.code

    def again() -> None:
        config = Path('coco.py').read_text()
        assert end_of_fit() == 1
        assert 'work_dirs/coco: another rebnn fit is running here. Wait until' in capsys.readouterr().err
        assert Path('coco.py').read_text() == config  # which the first has still to read
        raise KeyboardInterrupt

    epochs = itertools.count(1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr('rebnn_mm.cli.train.main', again)
    assert [end_of_fit() for _ in range(2)] == [130, 130]  # the end of the first frees the folder


def test_ctrl_c_in_any_step_says_last_how_to_go_on(tmp_path, monkeypatch, capsys):
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr('rebnn_mm.cli.train.main', interrupted)
    monkeypatch.setattr(sys, 'argv', ['rebnn fit', str(FORMS / 'coco'), '--no-teacher', *map(str, SMALL)])
    with pytest.raises(SystemExit) as stopped:
        fit.main()
    assert stopped.value.code == 130
    assert capsys.readouterr().err.splitlines()[-1] == 'rebnn fit: the same command continues where this one stopped.'


@pytest.mark.slow
@pytest.mark.parametrize('spoilt', [False, True])
def test_a_detector_designed_for_one_bit_is_packed_in_int8_unless_that_spoils_it(
    spoilt, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (config,) = fit.write(options(FORMS / 'yolo_roboflow', base=BASES['nano'].format(''), teacher=False))
    cfg, folder = Config.fromfile(config), fit.work_dir_of(config)
    with DefaultScope.overwrite_default_scope('mmdet'):
        model = MODELS.build(cfg.model)
    folder.mkdir(parents=True)
    torch.save({'state_dict': model.state_dict(), 'meta': {}}, folder / 'best.pth')
    if spoilt:  # there is nothing to calibrate on
        config.write_text(f'{config.read_text()}\ntrain_dataloader["dataset"]["ann_file"] = "none.json"\n')
    fit.pack(config, Path('packed.onnx'))
    said = capsys.readouterr().out
    assert f'--half --fast --int8 --int8-layers all --reduce-range > {folder}/export.log\n' in said
    assert 'bits W/A' not in said and 'bits W/A' in (folder / 'export.log').read_text()
    assert ('note: packed without int8, because ' in said) == spoilt
    assert ('rebnn.int8' in read_onnx(Path('packed.onnx').read_bytes()).metadata) != spoilt


def test_the_table_has_a_row_per_class_and_a_column_per_file():
    scores = {
        name: {'coco/bbox_mAP': ap, 'coco/bbox_mAP_50': 0.8, 'coco/cat_precision': 0.25, 'coco/dog_precision': -1.0}
        for name, ap in (('a', 0.5), ('b', 0.4), ('c', 0.45))
    }
    points = [dict(label=label, score=0, ms=20, megabytes=2.06) for label in ('1 bit', 'fp32', 'fp32, int8')]
    keys = {'1 bit': 'a', 'fp32': 'c', 'fp32, int8': 'b'}
    console = Console(width=100, record=True, file=open('/dev/null', 'w'))  # noqa: SIM115
    console.print(fit.table_of(dict(points=points, scores=scores, keys=keys), 'test'))
    cells = [[cell.strip() for cell in re.split('[│┃]', line)[1:-1]] for line in console.export_text().splitlines()]
    assert [row for row in cells if row] == [
        ['', '1 bit, packed', 'teacher, int8', 'teacher, fp32'],
        ['AP', '50.0', '40.0', '45.0'],
        ['AP50', '80.0', '80.0', '80.0'],
        ['AP, cat', '25.0', '25.0', '25.0'],
        ['AP, dog', '-', '-', '-'],
        ['ms per image', '20.0', '20.0', '20.0'],
        ['MB', '2.06', '2.06', '2.06'],
    ]


@pytest.mark.parametrize('nothing', [False, True])
@pytest.mark.parametrize('test', ['own', 'none', 'alone'])
def test_a_detector_that_finds_nothing_yet_has_a_table_too(nothing, test, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    data = shutil.copytree(FORMS / 'coco', tmp_path / 'mine')
    if test != 'own':  # alone: the test images are those of validation, too
        (data / f'annotations/instances_{"test" if test == "none" else "val"}.json').unlink()
    (config,) = fit.write(options(data, **ALONE, out=Path('some/new/folder/mine.py')))
    teacher = {'coco/bbox_mAP': 0.5, 'coco/bbox_mAP_50': 0.8, 'coco/cat_precision': 0.5}
    labels = ('1 bit', 'fp32')
    points = [dict(label=label, score=0, ms=20, megabytes=2.06) for label in labels]
    scores = {'1 bit': {} if nothing else teacher, 'fp32': teacher}
    compared = dict(points=points, scores=scores, keys={label: label for label in labels})
    capsys.readouterr()
    fit.show(config, Path('mine.onnx'), compared)
    said = capsys.readouterr().out
    assert f'On the {"test" if test == "own" else "validation"} images, one thread' in said
    assert ('note: no images are for the test alone' in said) == (test != 'own')
    assert ('note: mine.onnx finds nothing yet: train longer (--epochs)' in said) == nothing
    row = next(line for line in said.splitlines() if 'AP, cat' in line)
    assert re.findall('[0-9.]+', row) == ['0.0' if nothing else '50.0', '50.0']
    assert 'rebnn test-packed some/new/folder/mine.py mine.onnx' in said


def check_outputs(folder: Path, name: str, said: str, columns: str) -> None:
    assert (folder / f'{name}.onnx').stat().st_size < 4e6
    assert (folder / 'work_dirs' / name / 'curves.png').is_file()
    assert len(list((folder / 'work_dirs' / name / 'painted').iterdir())) == 1  # as many as there are
    table = said[said.index('On the test images') :]
    assert columns in re.sub(' +', ' ', table) and 'AP, disc' in table and 'AP, red square' in table
    assert f'rebnn run {name}.onnx photo.jpg --out painted.png' in table


def fit_form(form: str, folder: Path) -> GraphProto:
    """What is in the packed file of a form, fitted in a folder with one seed."""
    base, printed = folder / 'base.py', io.StringIO()
    base.write_text(BASE)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.chdir(folder)
        run_here('rebnn fit', FORMS / form, '--base', base, *SMALL)
    said = printed.getvalue()
    check_outputs(folder, form, said, '┃ 1 bit, packed ┃')
    assert [line.split()[2] for line in said.splitlines() if line.startswith('$ rebnn')] == [
        'train', 'export', 'choose', 'curves'
    ]  # fmt: skip
    return onnx.load(folder / f'{form}.onnx').graph


@pytest.fixture(scope='module')
def graph_of_coco(tmp_path_factory):
    graph = fit_form('coco', tmp_path_factory.mktemp('coco'))
    gc.collect()
    gc.freeze()  # what a trace leaves, which each data set would look through for garbage
    return graph


@pytest.mark.parametrize('form', sorted(path.name for path in FORMS.iterdir() if path.name != 'coco'))
def test_every_form_becomes_the_same_network_in_a_packed_file(form, graph_of_coco, tmp_path):
    assert fit_form(form, tmp_path) == graph_of_coco


@pytest.mark.slow
def test_an_interrupted_fit_goes_on_where_it_was(tmp_path):
    few = ('--base', 'two-stage', '--size', '96', '64', '--epochs', '10')  # tiny finds nothing so soon
    command = [sys.executable, str(ROOT / 'rebnn_command.py'), 'fit', str(FORMS / 'yolo_roboflow'), *few]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    work_dirs = tmp_path / 'work_dirs'
    while not (work_dirs / 'yolo_roboflow_teacher/last_checkpoint').is_file():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and 'Traceback' not in errors, errors
    assert errors.strip().endswith('the same command continues where this one stopped.')
    begun = (work_dirs / 'yolo_roboflow_teacher/last_checkpoint').read_text()
    before = torch.load(begun, weights_only=False)['meta']['epoch']
    done = run_script(command[1], *command[2:], cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    rows = [line for line in done.stdout.splitlines() if line.startswith('epoch ')]
    assert rows[0].startswith(f'epoch {before + 1:>2}/10') and sum(row.startswith('epoch  1/10') for row in rows) == 1
    check_outputs(tmp_path, 'yolo_roboflow', done.stdout, '┃ 1 bit, packed ┃ teacher, int8 ┃ teacher, fp32 ┃')
    labels = [
        point['label'] for point in json.loads((work_dirs / 'yolo_roboflow/compared.json').read_text())['points']
    ]
    assert labels == ['1 bit', 'fp32', 'fp32, int8']
    again = run_script(command[1], *command[2:], cwd=tmp_path)
    assert again.returncode == 0 and 'epoch ' not in again.stdout.replace('epochs', '')
    assert not any(noise in again.stdout for noise in ('Loads checkpoint', 'bits W/A', 'OneDL'))
    assert 'bits W/A' in (work_dirs / 'yolo_roboflow/export.log').read_text()
