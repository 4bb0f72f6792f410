import re
import runpy
import sys

import pytest
import torch

from tests.scripts import ROOT, run_script

IMAGE = 'demo/coco_sample/val2017/000000214753.jpg'


def cells(stdout, row):
    (line,) = [line for line in stdout.splitlines() if line.startswith('│ ') and row in line]
    return [cell.strip() for cell in line.strip('│').split('│')[1:]]


def test_prints_and_draws_both_detectors(binary_detector, real_detector, tmp_path):
    import cv2

    out = tmp_path / 'new' / 'both.png'
    names = ['--names', '1-bit', 'full-precision']
    flags = ['--score-thr', '0', '--out', out, '--device', 'cpu', *names]
    done = run_script('demo/compare.py', IMAGE, *binary_detector, *real_detector, *flags)
    assert done.returncode == 0, done.stderr
    assert cells(done.stdout, 'objects with a score') == ['100', '100']  # an untrained detector fills max_per_img
    assert cells(done.stdout, 'counted on') == ['160x128, 100 regions'] * 2

    # A batch norm has two learned vectors and folds into two, so the full-precision one deploys as its parameters.
    weights = torch.load(real_detector[1], weights_only=False)['state_dict']
    learned = sum(
        value.numel() for key, value in weights.items() if 'running_' not in key and 'num_batches' not in key
    )
    binary, real = map(float, cells(done.stdout, 'deployed size'))
    assert real == round(4 * learned / 1e6, 2)
    assert 18 < real / binary < 32  # all 3x3 convolutions in one bit, stem, shortcuts and predictors in 32

    binary_ops, real_ops = map(float, cells(done.stdout, 'OPs per image'))
    share, none = (float(cell) / 100 for cell in cells(done.stdout, 'with 1 bit'))
    assert none == 0
    # The 1-bit share counts 1/64, the rest in full; its shortcuts add 1x1 convolutions that the twin has, too.
    assert binary_ops / real_ops == pytest.approx(1 - share + share / 64, abs=0.02)

    picture = cv2.imread(str(out))
    left, right = picture[:, : picture.shape[1] // 2], picture[:, -(picture.shape[1] // 2) :]
    assert picture.shape[1] == 1650 and (abs(left.astype(int) - right) > 60).mean() > 0.01
    assert [path.name for path in out.parent.iterdir()] == ['both.png']


@pytest.mark.parametrize(
    ('change', 'message'),
    [
        ({0: 'no/such.jpg'}, r'no image at no/such\.jpg\.'),
        ({0: 'README.md'}, r'README\.md cannot be read as an image\.'),
        ({3: 'configs/bccd/faster_rcnn_r18_bcd.py'}, r'Did you mean configs/bccd/faster_rcnn_r18_bccd\.py'),
        ({3: 'configs/imagenet/resnet18_rebnn_imagenet.py'}, 'is the config of a classifier'),
        ({4: 'gone.pth'}, r'no checkpoint at gone\.pth\.'),
        ({6: 'both.doc'}, r'End the name in \.png'),
        ({6: 'README.md/both.png'}, r'cannot write to README\.md/both\.png: Not a directory'),
        ({1: 'sizeless.py'}, r'sizeless\.py: no data pipeline says the size of an image'),
        ({2: 'the real one'}, r'fills \d+ of the \d+ parameters of this model; missing: '),
    ],
)
def test_wrong_input_is_one_sentence(binary_detector, real_detector, change, message, tmp_path, monkeypatch, capsys):
    args = [IMAGE, *map(str, [*binary_detector, *real_detector]), '--out', str(tmp_path / 'both.png')]
    sizeless = tmp_path / 'sizeless.py'
    sizeless.write_text('model = dict()')
    for index, value in change.items():
        args[index] = {'the real one': str(real_detector[1]), 'sizeless.py': str(sizeless)}.get(value, value)
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend('demo')
    monkeypatch.setattr(sys, 'argv', ['demo/compare.py', *args, '--device', 'cpu'])
    with pytest.raises(SystemExit) as end:
        runpy.run_path('demo/compare.py', run_name='__main__')
    assert end.value.code == 1
    (error,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith('demo/compare.py: ')]
    assert re.search(message, error)
    assert [path.name for path in tmp_path.iterdir()] == ['sizeless.py']
