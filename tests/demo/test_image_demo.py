import re

import pytest

from tests.scripts import ROOT, run_script

IMAGE = 'demo/coco_sample/val2017/000000214753.jpg'
CONFIG = 'configs/coco/faster_rcnn_r18_rebnn_coco.py'


@pytest.fixture(scope='module')
def checkpoint(tmp_path_factory):
    """An untrained binary detector for small images, saved as mmengine saves one: weights, config and class names."""
    torch = pytest.importorskip('torch')
    pytest.importorskip('mmcv._ext', reason='mmdet needs the compiled ops of mmcv')
    from mmdet.datasets import CocoDataset
    from mmdet.registry import MODELS
    from mmengine.config import Config
    from mmengine.registry import init_default_scope

    cfg = Config.fromfile(ROOT / CONFIG)
    cfg.merge_from_dict({
        'model.backbone.init_cfg': None,
        'model.roi_head.shared_head.init_cfg': None,
        'model.test_cfg.rcnn.score_thr': 0.0,
        'test_dataloader.dataset.pipeline.1.scale': (160, 120),
    })  # fmt: skip
    init_default_scope('mmdet')
    torch.manual_seed(0)
    model = MODELS.build(cfg.model)
    path = tmp_path_factory.mktemp('image_demo') / 'untrained.pth'
    meta = {'cfg': cfg.pretty_text, 'dataset_meta': CocoDataset.METAINFO}
    torch.save({'state_dict': model.state_dict(), 'meta': meta}, path)
    return path


@pytest.fixture
def run_demo(tmp_path):
    def run(*args):
        return run_script('rebnn detect', '--out', tmp_path / 'painted.jpg', *args)

    return run


def test_prints_and_draws_what_the_config_in_the_checkpoint_detects(run_demo, checkpoint, tmp_path):
    import cv2

    done = run_demo(IMAGE, checkpoint, '--score-thr', '0.0', '--device', 'cpu')
    assert done.returncode == 0, done.stderr
    found = re.findall(r'^[a-z ]+ (0\.\d\d)  x1 \d+  y1 \d+  x2 \d+  y2 \d+$', done.stdout, flags=re.MULTILINE)
    assert len(found) == 100  # an untrained detector fills max_per_img
    assert len(done.stdout.splitlines()) == len(found) + 2  # what libraries print is left out
    assert found == sorted(found, reverse=True)
    assert f'100 objects with a score of at least 0 in {IMAGE}' in done.stdout
    before, after = cv2.imread(str(ROOT / IMAGE)), cv2.imread(str(tmp_path / 'painted.jpg'))
    assert before.shape == after.shape
    assert (abs(before.astype(int) - after) > 60).any()


def test_wrong_input_is_one_sentence(stop_tool, checkpoint, tmp_path):
    cut, empty = tmp_path / 'cut.jpg', tmp_path / 'empty.jpg'
    cut.write_bytes((ROOT / IMAGE).read_bytes()[:9000])
    empty.write_bytes(b'')
    for args, message in [
        (('no/such.jpg', checkpoint), 'no image at no/such.jpg.'),
        ((cut, checkpoint), 'cut.jpg cannot be read as an image.'),
        ((empty, checkpoint), 'empty.jpg cannot be read as an image.'),
        ((IMAGE, checkpoint, '--out', tmp_path / 'a.txt'), 'a.txt. End the name in .jpg or .png.'),
        ((IMAGE, checkpoint, '--out', tmp_path / 'painted'), 'painted. End the name in .jpg or .png.'),
        ((IMAGE, checkpoint, '--device', 'gpu'), '--device gpu cannot be used (Expected one of cpu,'),
        ((IMAGE, 'gone.pth'), 'no checkpoint at gone.pth.'),
        ((IMAGE, 'configs/faster_rcnn_r18_rebn_coco.py', checkpoint), f'Did you mean {CONFIG}'),
    ]:
        assert message in stop_tool('rebnn detect', '--out', tmp_path / 'painted.jpg', *args)


def test_a_picture_that_cannot_be_written(run_demo, checkpoint):
    done = run_demo(IMAGE, checkpoint, '--out', 'README.md/painted.jpg')
    assert done.returncode == 1
    assert 'cannot write to README.md/painted.jpg: Not a directory' in done.stderr and 'Traceback' not in done.stderr


def test_checkpoint_of_another_detector(run_demo, checkpoint):
    done = run_demo(IMAGE, 'configs/coco/faster_rcnn_r18_fpn_rebnn_coco.py', checkpoint, '--device', 'cpu')
    assert done.returncode == 1
    assert re.search(r'fills \d+ of the \d+ parameters of this model; missing: backbone\.layer4\.', done.stderr)
    assert 'Traceback' not in done.stderr
