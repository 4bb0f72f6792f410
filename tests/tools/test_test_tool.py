import pickle
import re

import pytest
import torch
from mmengine.config import Config

from rebnn_mm.cli.test import enable_tta

TOOL = 'tools/test.py'


@pytest.fixture(scope='module')
def checkpoint(trained_detector):
    return trained_detector[1] / 'epoch_1.pth'


def table_columns(stdout):
    header = next(line for line in stdout.splitlines() if 'in %' in line)
    return header.strip('┃').split('┃')


@pytest.fixture(scope='module')
def tested(run_tool, checkpoint, detector_config, tmp_path_factory):
    """The finished test run of the tiny detector with all its outputs, and its work dir."""
    work_dir = tmp_path_factory.mktemp('tested')
    flags = ['--work-dir', work_dir, '--out', work_dir / 'predictions.pkl', '--show-dir', 'painted']
    return run_tool(TOOL, detector_config, checkpoint, *flags), work_dir


def test_prints_the_table_and_writes_predictions_and_images(tested):
    done, work_dir = tested
    assert done.returncode == 0, done.stderr
    assert [name.strip() for name in table_columns(done.stdout)] == ['in %', 'AP', 'AP50', 'AP75', 'APs', 'APm', 'APl']
    predictions = pickle.loads((work_dir / 'predictions.pkl').read_bytes())
    assert len(predictions) == 2 and predictions[0]['pred_instances']['bboxes'].shape[1] == 4
    assert len(list(work_dir.glob('*/painted/*.jpg'))) == 2


def test_the_log_has_what_mmengine_says(tested):
    done, work_dir = tested
    names = re.findall(r'^\w+', done.stdout.partition('Average precision')[0], re.MULTILINE)
    assert names == ['config', 'data', 'log'] and 'Warning' not in done.stderr
    (log,) = work_dir.glob('*/*.log')
    assert str(log) in done.stdout and 'Epoch(test) [2/2]' in log.read_text()


def test_flips_are_merged_into_other_scores(run_tool, tested, checkpoint, detector_config, tmp_path):
    out = tmp_path / 'flipped.pkl'
    done = run_tool(TOOL, detector_config, checkpoint, '--work-dir', tmp_path, '--out', out, '--tta')
    assert done.returncode == 0, done.stderr
    plain, flipped = (pickle.loads(path.read_bytes()) for path in (tested[1] / 'predictions.pkl', out))
    assert not torch.equal(plain[0]['pred_instances']['scores'], flipped[0]['pred_instances']['scores'])


def test_classifier_prints_its_accuracy(run_tool, classifier_config, tmp_path):
    from mmengine.registry import init_default_scope
    from mmpretrain.registry import MODELS

    init_default_scope('mmpretrain')
    model = MODELS.build(Config.fromfile(classifier_config).model)
    torch.save(model.state_dict(), tmp_path / 'model.pth')
    done = run_tool(TOOL, classifier_config, tmp_path / 'model.pth', '--work-dir', tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'accuracy/top1: ' in done.stdout
    assert 'Average precision' not in done.stdout


def test_latent_weights_are_not_scored_as_real_ones(run_tool, checkpoint, detector_config, tmp_path):
    saved = torch.load(checkpoint, weights_only=False)
    saved['state_dict']['neck.fpn_convs.0.conv.weight_quantizer.alpha'] = torch.ones(16)
    torch.save(saved, tmp_path / 'binary.pth')
    done = run_tool(TOOL, detector_config, tmp_path / 'binary.pth', '--work-dir', tmp_path)
    assert done.returncode == 1, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith(f'{TOOL}: ')]
    assert 'the layer neck.fpn_convs.0.conv was trained with a quantizer that this model does not' in line
    assert 'Traceback' not in done.stderr and 'Use the config it was trained with' in line


@pytest.mark.parametrize(
    ('change', 'parts'),
    [
        (dict(checkpoint='gone.pth'), ['no checkpoint at gone.pth']),
        (dict(options=['model.bbox_head.num_classes=3']), ['fills ', 'bbox_head.retina_cls.bias', 'Use the config']),
        (dict(options=['model.conv_cfg.type=ReBNNConv2d']), ['model: RetinaNet takes no conv_cfg']),
        (dict(flags=['--out', 'x.json']), ['--out x.json must end in .pkl']),
        (dict(options=['test_evaluator=None']), [' has no test_evaluator. Take them over from']),
        (dict(options=['model=None']), [' has no model. Take them over from']),
        (dict(options=['test_cfg=None']), [' has no test_cfg. test_dataloader, test_cfg, test_evaluator go together']),
        (dict(flags=['--show-dir', 'x'], options=['default_hooks.visualization=None']), ['DetVisualizationHook']),
    ],
)
def test_wrong_input_is_one_sentence(stop_tool, checkpoint, detector_config, tmp_path, change, parts):
    flags = [*change.get('flags', []), '--work-dir', tmp_path]
    if 'options' in change:
        flags += ['--cfg-options', *change['options']]
    line = stop_tool(TOOL, detector_config, change.get('checkpoint', checkpoint), *flags)
    assert all(part in line for part in parts), line


@pytest.mark.parametrize('words', ['export {} gone.pth -o a.onnx', 'save-pretrained {} gone.pth new', 'ops {}'])
def test_a_config_without_a_model_is_named_whatever_reads_it(stop_tool, tmp_path, words):
    (tmp_path / 'bare.py').write_text("default_scope = 'mmengine'\n")
    command, *words = words.format(tmp_path / 'bare.py').split()
    assert 'bare.py has no model. Take them over from' in stop_tool(f'rebnn {command}', *words)


def test_augmentation_reaches_each_of_several_data_sets():
    def dataset(*steps):
        return dict(type='CocoDataset', pipeline=[*({'type': step} for step in steps), dict(type='PackDetInputs')])

    several = [dataset('A'), dict(type='RepeatDataset', times=1, dataset=dataset('B', 'C'))]
    cfg = Config(
        dict(model=dict(type='M'), test_dataloader=dict(dataset=dict(type='ConcatDataset', datasets=several)))
    )
    with pytest.warns(match='tested as they are and flipped'):
        enable_tta(cfg)
    first, second = cfg.test_dataloader.dataset.datasets
    found = [[step.type for step in one.pipeline] for one in (first, second.dataset)]
    assert found == [['A', 'TestTimeAug'], ['B', 'C', 'TestTimeAug']]
    assert first.pipeline[1].transforms[1][0].type == 'PackDetInputs' and cfg.model.module.type == 'M'


def test_a_window_needs_a_display(stop_tool, checkpoint, detector_config, tmp_path, monkeypatch):
    for name in ('DISPLAY', 'WAYLAND_DISPLAY'):
        monkeypatch.delenv(name, raising=False)
    found = stop_tool(TOOL, detector_config, checkpoint, '--work-dir', tmp_path, '--show')
    assert (
        found
        == 'there is no display to --show images on (DISPLAY is not set). Write them to a folder with --show-dir.'
    )


@pytest.mark.parametrize(
    ('flags', 'sentence'),
    [
        (
            ['--cfg-options', 'test_dataloader.dataset.metainfo.classes=[person,bycicle]'],
            "test_dataloader.dataset.metainfo.classes names 'bycicle' (nearest: 'bicycle'), which ",
        ),
        (['--out', '{0}/cut.pth/a.pkl'], 'cannot write to {0}/cut.pth/a.pkl: Not a directory ({0}/cut.pth).'),
        ([], '{0}/cut.pth cannot be read as a checkpoint: '),
    ],
)
def test_mistakes_are_one_sentence(stop_tool, detector_config, tmp_path, monkeypatch, flags, sentence):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'cut.pth').write_bytes(b'PK\x03\x04, and the rest is lost')
    found = stop_tool(TOOL, detector_config, tmp_path / 'cut.pth', *(flag.format(tmp_path) for flag in flags))
    assert found.startswith(sentence.format(tmp_path))
