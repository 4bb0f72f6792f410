import argparse
import re
import shutil
from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from rebnn_mm.cli import train
from rebnn_mm.errors import RebnnError
from tests.refusal import refusal

TOOL = 'tools/train.py'
ROOT = Path(__file__).parents[2]


def one_sentence(done, *parts):
    """The tool ended with exit code 1 and a message of one line that holds ``parts``, without a traceback."""
    assert done.returncode == 1, done.stderr
    assert 'Traceback' not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith(f'{TOOL}: ')]
    assert all(part in line for part in parts), line
    return line


def test_trains_evaluates_and_saves(trained_detector):
    done, work_dir = trained_detector
    assert done.returncode == 0, done.stderr
    (log,) = work_dir.glob('*/*.log')
    assert 'Epoch(train) [1][2/2]' in log.read_text() and 'coco/bbox_mAP' in log.read_text()
    state = torch.load(work_dir / 'epoch_1.pth', weights_only=False)
    assert state['meta']['iter'] == 2
    assert Config.fromfile(work_dir / 'tiny_detector.py').work_dir == str(work_dir)


def test_what_is_trained_on_what_then_a_line_per_epoch(trained_detector):
    """Environment, hooks, config and layers, some hundred lines, are in the log."""
    done, work_dir = trained_detector
    begin, lines = [], done.stdout.splitlines()
    while not lines[0].startswith('epoch'):
        begin.append(lines.pop(0))
    names = ['config', 'model', 'data', 'validation', 'schedule', 'start', 'device', 'log']
    assert [line.split()[0] for line in begin] == names
    assert begin[1].startswith('model      RetinaNet, 0 of ')
    assert begin[2] == 'data       4 samples, classes: person, bicycle, car, motorcycle, airplane and 75 more'
    assert begin[3] == 'validation 2 samples, every epoch'
    assert begin[4] == 'schedule   1 epoch of 2 steps, 2 samples each; SGD, rate 0.01'
    (line,) = lines
    assert re.fullmatch(r'epoch 1/1  loss \d+\.\d{3} \(cls .*, bbox .*\)  AP \d+\.\d, AP50 .*  took 0:0\d:\d\d', line)
    (log,) = work_dir.glob('*/*.log')
    words = ('System environment', 'Hooks will be executed', 'optim_wrapper = dict', 'full-precision layers:')
    assert all(word in log.read_text() for word in words[:3]) and str(log) in begin[-1]
    assert 'Running per image evaluation' in log.read_text()  # what libraries print is there, too


def test_the_whole_log_if_asked_for_and_pictures_and_tensorboard(run_tool, detector_config, tmp_path):
    done = run_tool(
        TOOL, detector_config, '--work-dir', tmp_path, '--verbose', '--log-to', 'tensorboard', '--val-pictures',
        '--cfg-options', 'default_hooks.visualization.interval=1',
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 'System environment' in done.stdout and 'Epoch(train) [1][2/2]' in done.stdout
    assert list(tmp_path.glob('*/vis_data/events.out.tfevents*'))
    assert len(list(tmp_path.glob('*/vis_data/vis_image/*.png'))) == 2


def test_a_detector_that_finds_nothing_yet_is_said_in_the_line(run_tool, detector_config, tmp_path):
    done = run_tool(
        TOOL, detector_config, '--work-dir', tmp_path, '--cfg-options', 'model.test_cfg.score_thr=2',
        'default_hooks.checkpoint.save_best=coco/bbox_mAP',
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith('epoch')]
    assert '  AP 0 (nothing found yet)  took ' in line
    said = done.stdout + done.stderr
    assert not any(noise in said for noise in ('whole dataset is empty', 'is an empty dict', 'meshgrid'))
    (log,) = tmp_path.glob('*/*.log')
    assert 'The testing results of the whole dataset is empty' in log.read_text()


def test_a_backend_that_is_not_installed_is_one_sentence(monkeypatch):
    monkeypatch.setattr(train, 'find_spec', lambda name: None)
    with pytest.raises(RebnnError, match='Run: pip install wandb$'):
        train.apply_views(Config(), argparse.Namespace(log_to=['wandb'], val_pictures=False))


def test_a_loss_that_is_lost_ends_with_what_to_try(run_tool, detector_config, tmp_path):
    done = run_tool(
        TOOL, detector_config, '--work-dir', tmp_path, '--cfg-options', 'optim_wrapper.optimizer.lr=1e18',
        'train_cfg.max_epochs=3', 'param_scheduler=None',
    )  # fmt: skip
    one_sentence(done, 'the loss is nan at step ', 'optim_wrapper.optimizer.lr=1e+17', 'clip_grad.max_norm=35')
    assert not list(tmp_path.glob('epoch_*.pth'))


def test_resumes_from_the_latest_checkpoint_with_options(run_tool, trained_detector, detector_config, tmp_path):
    shutil.copytree(trained_detector[1], tmp_path / 'work')
    (tmp_path / 'work/last_checkpoint').write_text(str(tmp_path / 'work/epoch_1.pth'))
    done = run_tool(
        TOOL, detector_config, '--work-dir', tmp_path / 'work', '--resume', '--auto-scale-lr', '--verbose',
        '--cfg-options', 'train_cfg.max_epochs=2', 'auto_scale_lr.base_batch_size=4',
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert 'Epoch(train) [2][2/2]' in done.stdout and 'Epoch(train) [1]' not in done.stdout
    assert 'batch size of 4 and the current batch size is 2. Scaling the original LR by 0.5.' in done.stdout
    assert torch.load(tmp_path / 'work/epoch_2.pth', weights_only=False)['meta']['iter'] == 4


def test_resuming_what_has_not_begun_keeps_its_start(tmp_path):
    """Else a second stage would begin from random weights, as mmengine's own resuming has it."""
    cfg = Config(dict(load_from='stage1.pth', work_dir=str(tmp_path)))
    flags = argparse.Namespace(amp=False, auto_scale_lr=False, resume='auto')
    train.apply_flags(cfg, flags)
    assert (cfg.resume, cfg.load_from) == (False, 'stage1.pth') and train.starting_checkpoint(cfg) == 'stage1.pth'
    (tmp_path / 'last_checkpoint').write_text('moved/from/here/epoch_1.pth')
    (tmp_path / 'epoch_1.pth').touch()
    train.apply_flags(cfg, flags)
    assert (cfg.resume, cfg.load_from) == (True, str(tmp_path / 'epoch_1.pth'))
    assert train.starting_checkpoint(cfg) == str(tmp_path / 'epoch_1.pth')
    flags.resume = 'other.pth'
    train.apply_flags(cfg, flags)
    assert (cfg.resume, cfg.load_from) == (True, 'other.pth')


def test_trains_a_classifier(run_tool, classifier_config, tmp_path):
    done = run_tool(TOOL, classifier_config, '--work-dir', tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r'^epoch 1/1  loss [\d.]+  top1 [\d.]+  took ', done.stdout, re.MULTILINE)
    assert (tmp_path / 'epoch_1.pth').is_file()


@pytest.mark.parametrize('flags', [['--resume', 'gone.pth'], ['--cfg-options', 'load_from=gone.pth']])
def test_missing_checkpoint(stop_tool, detector_config, tmp_path, flags):
    assert 'no checkpoint at gone.pth' in stop_tool(TOOL, detector_config, '--work-dir', tmp_path, *flags)


def test_resuming_another_architecture(stop_tool, trained_detector, detector_config, tmp_path):
    checkpoint = trained_detector[1] / 'epoch_1.pth'
    said = stop_tool(
        TOOL, detector_config, '--work-dir', tmp_path, '--resume', checkpoint,
        '--cfg-options', 'model.bbox_head.num_classes=3',
    )  # fmt: skip
    assert 'bbox_head.retina_cls.weight (720x16x3x3 in the checkpoint, 27x16x3x3 in the model)' in said
    assert not list(tmp_path.glob('*.pth'))


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        ("optim_wrapper = dict(optimizer=dict(_delete_=True, type='Adam', lr=0.01))", 'without betas'),
        ("optim_wrapper = dict(paramwise_cfg=dict(custom_keys={'neck': dict(lr_mult=0.1)}))", 'groups of parameters'),
        (
            "param_scheduler = [dict(type='PolyLR', end=300)]\ntrain_cfg = dict(max_epochs=300)",
            'end after 500 steps',  # those of mmdet's warm-up
        ),
    ],
)
def test_resuming_with_other_settings(stop_tool, trained_detector, detector_config, tmp_path, change, words):
    """mmengine would take those of the checkpoint, or fail in the first step."""
    changed = tmp_path / 'changed.py'
    changed.write_text(f'_base_ = {str(detector_config)!r}\n{change}\n')
    said = stop_tool(TOOL, changed, '--work-dir', tmp_path, '--resume', trained_detector[1] / 'epoch_1.pth')
    assert all(part in said for part in ('--resume: ', words, 'load_from='))


def test_resuming_what_is_finished_says_so(run_tool, trained_detector, detector_config, tmp_path):
    checkpoint = trained_detector[1] / 'epoch_1.pth'
    done = run_tool(TOOL, detector_config, '--work-dir', tmp_path, '--resume', checkpoint)
    assert done.returncode == 0 and 'already finished, 1 of 1 epoch\n' in done.stdout


def test_resuming_without_an_optimizer_says_so(run_tool, trained_detector, detector_config, tmp_path):
    checkpoint = torch.load(trained_detector[1] / 'epoch_1.pth', weights_only=False)
    del checkpoint['optimizer']
    torch.save(checkpoint, tmp_path / 'bare.pth')
    done = run_tool(TOOL, detector_config, '--work-dir', tmp_path, '--resume', tmp_path / 'bare.pth')
    assert done.returncode == 0 and 'bare.pth has no state of the optimizer' in done.stdout


INTERRUPTED = """
_base_ = {base!r}
custom_imports = dict(imports=['tests.tools.ctrl_c'], allow_failed_imports=False)
custom_hooks = [dict(type='CtrlCHook')]
train_cfg = dict(max_epochs=99)
"""


def test_ctrl_c_says_how_to_go_on(run_tool, detector_config, tmp_path):
    config = tmp_path / 'interrupted.py'
    config.write_text(INTERRUPTED.format(base=str(detector_config)))
    done = run_tool(TOOL, config, '--work-dir', tmp_path)
    assert done.returncode == 130 and 'Traceback' not in done.stderr
    (latest,) = re.findall(rf'^{TOOL}: stopped. With --resume it continues from (.*)\.$', done.stderr, re.MULTILINE)
    assert torch.load(latest, weights_only=False)['meta']['epoch'] == 1


def test_longer_than_its_schedule(stop_tool, trained_detector, detector_config, tmp_path):
    """What trains a finished run on, and would do so at a rate of zero."""
    falling = tmp_path / 'falling.py'
    ends = "param_scheduler = [dict(type='LinearLR', start_factor=1, end_factor=0, by_epoch=True, end=2)]\n"
    falling.write_text(detector_config.read_text() + ends)
    said = stop_tool(
        TOOL, falling, '--work-dir', tmp_path, '--resume', trained_detector[1] / 'epoch_1.pth',
        '--cfg-options', 'train_cfg.max_epochs=3',
    )  # fmt: skip
    assert 'the rate falls to 0 after 1 of 3 epochs' in said and 'set train_cfg.max_epochs=1.' in said


def test_auto_scale_lr_needs_a_batch_size(stop_tool, detector_config, tmp_path):
    said = stop_tool(
        TOOL, detector_config, '--work-dir', tmp_path, '--auto-scale-lr', '--cfg-options', 'auto_scale_lr=None'
    )
    assert 'auto_scale_lr = dict(base_batch_size=...)' in said


@pytest.mark.skipif(torch.cuda.is_available(), reason='needs a machine without a GPU')
def test_amp_without_a_gpu(stop_tool, detector_config, tmp_path):
    options = ('--cfg-options', 'optim_wrapper.type=AmpOptimWrapper')
    said = stop_tool(TOOL, detector_config, '--work-dir', tmp_path, *options)
    assert all(
        part in said for part in ('AmpOptimWrapper, the mixed precision of mmengine, needs a GPU', 'AVX512_BF16')
    )


@pytest.mark.parametrize(
    ('device', 'bfloat16', 'wrapper', 'scale'),
    [
        ('cuda', True, 'AmpOptimWrapper', 'dynamic'),
        ('cpu', True, 'Bfloat16OptimWrapper', None),
        ('cpu', False, 'AmpOptimWrapper', 'dynamic'),  # refused after that
        ('mps', False, 'AmpOptimWrapper', 'dynamic'),
    ],
)
def test_amp_is_what_the_device_offers(monkeypatch, device, bfloat16, wrapper, scale):
    monkeypatch.setattr(train, 'get_device', lambda: device)
    monkeypatch.setattr(train, 'multiplies_bfloat16', lambda: bfloat16)
    cfg = Config.fromfile(ROOT / 'configs/coco/faster_rcnn_r18_rebnn_coco.py')
    cfg.optim_wrapper.dtype = 'float16'
    train.apply_flags(cfg, argparse.Namespace(amp=True, auto_scale_lr=False, resume=None))
    assert cfg.optim_wrapper.type == wrapper and cfg.optim_wrapper.get('loss_scale') == scale
    assert ('dtype' in cfg.optim_wrapper) is (wrapper == 'AmpOptimWrapper')
    assert cfg.optim_wrapper.constructor == 'BinaryOptimWrapperConstructor'
    assert [hook.type for hook in cfg.custom_hooks] == ['ReBNNHook']
    assert (refusal(train.check_amp, cfg) is None) is (device == 'cuda' or wrapper == 'Bfloat16OptimWrapper')


@pytest.mark.parametrize(
    ('options', 'sentence'),
    [
        (
            ['model.backbone.conv_cfg.type=ReBNNConv'],
            "model.backbone.conv_cfg.type='ReBNNConv' is not registered (model). Did you mean 'ReBNNConv2d'?",
        ),
        (
            ['optim_wrapper.constructor=BinaryOptimWraperConstructor'],
            "optim_wrapper.constructor='BinaryOptimWraperConstructor' is not registered (optimizer constructor). "
            "Did you mean 'BinaryOptimWrapperConstructor'?",
        ),
        (
            ['optim_wrapper.optimizer.leaning_rate=1'],
            "optim_wrapper.optimizer of type SGD: no option 'leaning_rate'. ",
        ),
        (
            ['optim_wrapper=None', 'train_cfg=None'],
            '{1} has no train_cfg and no optim_wrapper. Take them over from a config that has them (_base_).',
        ),
        (
            ['model.bbox_head.num_classes=1'],
            'model.bbox_head.num_classes=1, but the training data have the label ',
        ),
        (
            [f'{split}_dataloader.dataset.metainfo.classes=[Person,bicycle]' for split in ('train', 'val', 'test')],
            "train_dataloader.dataset.metainfo.classes names 'Person' (nearest: 'person'), which ",
        ),
        (['train_dataloader.dataset.data_root=no/'], 'no annotations at no/annotations/instances_train2017.json ('),
        (['load_from={0}/cut.pth'], '{0}/cut.pth cannot be read as a checkpoint: '),
        (['work_dir={0}/cut.pth/work'], 'cannot write to {0}/cut.pth/work: Not a directory ({0}/cut.pth).'),
    ],
    ids=lambda value: value[-1].partition('=')[0] if isinstance(value, list) else '',
)
def test_mistakes_in_a_config(stop_tool, detector_config, tmp_path, monkeypatch, options, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'cut.pth').write_bytes(b'PK\x03\x04, and the rest is lost')
    found = stop_tool(TOOL, detector_config, '--cfg-options', *(option.format(tmp_path) for option in options))
    assert found.startswith(sentence.format(tmp_path, detector_config))
    assert not list(tmp_path.glob('work_dirs/*/*.pth'))
