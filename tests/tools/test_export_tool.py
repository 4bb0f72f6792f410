import runpy
import sys

import pytest
import torch

pytest.importorskip('mmpretrain')

from rebnn_mm.deploy import load
from tests.export.conftest import tiny_classifier
from tests.export.networks import CONFIG
from tests.tools.conftest import ROOT

TOOL = 'tools/export.py'


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('export')
    (folder / 'tiny.py').write_text(CONFIG.replace('num_classes=2', 'num_classes=5'))
    torch.save(tiny_classifier().state_dict(), folder / 'tiny.pth')
    (folder / 'cut.pth').write_bytes((folder / 'tiny.pth').read_bytes()[:1000])
    return folder


def test_a_checkpoint_becomes_a_file_that_runs(run_tool, folder):
    images = sorted((ROOT / 'demo/coco_sample/val2017').iterdir())[:2]
    out = folder / 'new' / 'tiny.onnx'
    done = run_tool(TOOL, folder / 'tiny.py', folder / 'tiny.pth', '-o', out, '--half', '--fast', '--image', *images)
    assert done.returncode == 0, done.stderr
    for words in (
        'backbone.layer1.0.conv1',
        'first layer (3 input',
        'Compared with PyTorch on 2 given images',
        'Best class the same on 2 of 2 images',
        'Half precision against single precision on 2 given images',
        '--fast: this model has no stem and no regions that we have a kernel for; ONNX Runtime may use its blocked',
        'The file with --fast against the exact one on 2 given images',
    ):
        assert words in done.stdout, words
    assert done.stdout.splitlines()[-1].endswith('agrees with PyTorch on 2 given images.')
    labels = load(out, use_library=False)(str(images[0]))
    assert len(labels) == 5 and abs(sum(label.score for label in labels) - 1) < 1e-5
    assert list(out.parent.iterdir()) == [out]


def test_int8_is_calibrated_on_a_folder_told_layer_by_layer_and_scored(run_tool, folder):
    photos = ROOT / 'demo/coco_sample/val2017'
    (folder / 'labels.txt').write_text(''.join(f'{path.name} {i % 5}\n' for i, path in enumerate(photos.iterdir())))
    config = (
        (folder / 'tiny.py').read_text()
        + f"""
test_dataloader['dataset'].update(ann_file=r'{folder / 'labels.txt'}', data_prefix=r'{photos}', classes=list('abcde'))
test_dataloader.update(batch_size=1, num_workers=0, sampler=dict(type='DefaultSampler', shuffle=False))
test_evaluator = dict(type='Accuracy', topk=(1,))
test_cfg = dict()
"""
    )
    (folder / 'scored.py').write_text(config)
    done = run_tool(
        TOOL, folder / 'scored.py', folder / 'tiny.pth', '-o', folder / 'int8.onnx', '--int8', photos, '--score'
    )
    assert done.returncode == 0, done.stderr
    count = len(list(photos.iterdir()))
    for words in (
        f'calibrating int8 layers on {count} images',
        'first layer (3 input channels)',
        'its values never become a sign',
        f'against the one without on {count} calibration images: outputs differ by at most',
        f'The same on {min(count, 10)} images of the test set: outputs differ by at most',
        'accuracy/top1',
    ):
        assert words in done.stdout, words
    assert len(load(folder / 'int8.onnx', use_library=False)(str(next(photos.iterdir())))) == 5
    assert not list(folder.glob('.*')) and not list(folder.glob('work_dirs'))


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        ('gone.py tiny.pth', 'no config file at gone.py'),
        ('tiny.py gone.pth', 'no checkpoint at gone.pth'),
        ('tiny.py cut.pth', 'cut.pth cannot be read as a checkpoint'),
        ('tiny.py tiny.pth --format docx', '--format docx does not exist; there are onnx'),
        ('tiny.py tiny.pth --image gone.jpg', 'no image at gone.jpg'),
        (
            'tiny.py tiny.pth --cfg-options pipeline.1.type=Rotate test_dataloader.dataset.pipeline.1.type=Rotate',
            'the packed format has no words for',
        ),
        ('tiny.py tiny.pth -o .', 'cannot write to .: it is a folder. Name a file.'),
        (
            'tiny.py tiny.pth --cfg-options model.head.type=LinearClsHed',
            "model.head.type='LinearClsHed' is not registered (model). Did you mean 'LinearClsHead'?",
        ),
        ('tiny.py tiny.pth --int8 gone', 'int8: no image at gone.'),
        ('tiny.py tiny.pth --int8 tiny.py', 'tiny.py cannot be read as an image'),
        ('tiny.py tiny.pth --int8', 'the config has no train_dataloader to take images from'),
        ('tiny.py tiny.pth --score', '--score requires --int8'),
        ('tiny.py tiny.pth --int8-layers all', '--int8-layers requires --int8'),
        ('tiny.py tiny.pth --int8 tiny.py --score', 'tiny.py has no test_evaluator. Take'),
        (
            'tiny.py tiny.pth --int8 tiny.py --format lce',
            'int8 is an option of --format onnx; --format lce has the operators and number types',
        ),
    ],
)
def test_wrong_input_is_one_sentence_and_leaves_no_file(folder, arguments, words, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, 'argv', [TOOL, '-o', 'x.onnx', *arguments.split()])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(ROOT / TOOL), run_name='__main__')
    assert stopped.value.code == 1
    # Loggers that an earlier test left may write here, too.
    (line,) = [line for line in capsys.readouterr().err.splitlines() if f'{TOOL}: ' in line]
    assert words in line
    assert not (folder / 'x.onnx').exists() and not list(folder.glob('.*'))
