"""The analysis tools that mmdet and mmpretrain install work on this project's configs, as docs/analysis.md says.

Training, testing and each tool run as a command of their own.
"""

import glob
import json
import pickle
import re
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import pytest

from tests.scripts import ROOT, run_script

# Fourteen commands, most of them not ours; ours have test files of their own.
pytestmark = pytest.mark.slow

CLASSES = ('person', 'horse', 'toilet')
TRAIN = ('000000358083.jpg', '000000078499.jpg', '000000060623.jpg')
TEST = ('000000214753.jpg', '000000458054.jpg', '000000261888.jpg', '000000404484.jpg')


class Done(NamedTuple):
    """A finished command: its exit code and what it printed."""

    code: int
    text: str


def run(command: list[object]) -> Done:
    """The first word is the script, ``*`` as in a shell."""
    words = [file for word in map(str, command) for file in (glob.glob(word) if '*' in word else [word])]
    done = run_script(*words)
    return Done(done.returncode, done.stdout + done.stderr)


def write_annotations(folder: Path, split: str, names: tuple[str, ...]) -> dict:
    full = json.loads((ROOT / f'demo/coco_sample/annotations/instances_{split}2017.json').read_text())
    categories = [category for category in full['categories'] if category['name'] in CLASSES]
    images = [image for image in full['images'] if image['file_name'] in names]
    kept = {category['id'] for category in categories}, {image['id'] for image in images}
    boxes = [box for box in full['annotations'] if box['category_id'] in kept[0] and box['image_id'] in kept[1]]
    chosen = dict(full, categories=categories, images=images, annotations=boxes)
    (folder / f'annotations/instances_{split}2017.json').write_text(json.dumps(chosen))
    (folder / f'{split}2017').symlink_to(ROOT / f'demo/coco_sample/{split}2017')
    return chosen


def truth(annotations: dict) -> list[dict]:
    """What tools/test.py --out would have written for a detector that makes no mistake."""
    import torch

    label = {category['id']: CLASSES.index(category['name']) for category in annotations['categories']}
    predictions = []
    for image in annotations['images']:
        boxes = [box for box in annotations['annotations'] if box['image_id'] == image['id'] and not box['iscrowd']]
        corners = torch.tensor([box['bbox'] for box in boxes])
        corners[:, 2:] += corners[:, :2]
        found = dict(
            bboxes=corners,
            labels=torch.tensor([label[box['category_id']] for box in boxes]),
            scores=torch.ones(len(boxes)),
        )
        size = (image['height'], image['width'])
        predictions.append(dict(img_id=image['id'], ori_shape=size, pred_instances=found))
    return predictions


@pytest.fixture(scope='module')
def detector(tmp_path_factory):
    """Folder with the config, its data, and predictions that are known to be right, and right for the first half."""
    pytest.importorskip('mmcv._ext', reason='mmdet needs the compiled ops of mmcv')
    from mmengine.config import Config

    folder = tmp_path_factory.mktemp('detector')
    (folder / 'annotations').mkdir()
    write_annotations(folder, 'train', TRAIN)
    right = truth(write_annotations(folder, 'val', TEST))
    (folder / 'right.pkl').write_bytes(pickle.dumps(right))
    for prediction in right[2:]:
        prediction['pred_instances']['bboxes'] += 1000
    (folder / 'half.pkl').write_bytes(pickle.dumps(right))

    cfg = Config.fromfile(ROOT / 'configs/demo/faster_rcnn_r18_rebnn_coco_sample.py')
    options = {
        'train_cfg.max_iters': 2,
        'train_cfg.val_interval': 2,
        'default_hooks.logger.interval': 1,
        'train_dataloader.batch_size': 2,
        'train_dataloader.dataset.pipeline.2.scale': (128, 128),
        'val_dataloader.dataset.ann_file': 'annotations/instances_val2017.json',
        'val_dataloader.dataset.data_prefix.img': 'val2017/',
        'model.roi_head.bbox_head.num_classes': len(CLASSES),
        'model.test_cfg.rcnn.score_thr': 0.0,  # after two steps nothing is above any other
        'model.test_cfg.rcnn.max_per_img': 5,
        'model.test_cfg.rpn.max_per_img': 20,
        'model.train_cfg.rcnn.sampler.num': 8,
    }
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        options[f'{loader}.num_workers'] = 0
        options[f'{loader}.persistent_workers'] = False
        options[f'{loader}.dataset.data_root'] = f'{folder}/'
        options[f'{loader}.dataset.indices'] = None
        options[f'{loader}.dataset.metainfo'] = dict(classes=CLASSES)
    for split in ('val', 'test'):
        options[f'{split}_dataloader.dataset.pipeline.1.scale'] = (128, 128)
        options[f'{split}_evaluator.ann_file'] = str(folder / 'annotations/instances_val2017.json')
    options['test_evaluator.outfile_prefix'] = str(folder / 'found')
    cfg.merge_from_dict(options)
    cfg.dump(folder / 'config.py')
    return folder


@pytest.fixture(scope='module')
def classifier(tmp_path_factory):
    """Folder with the config of a small binary classifier and its data: the sample images at 32x32."""
    pytest.importorskip('mmpretrain')
    from mmengine.config import Config

    folder = tmp_path_factory.mktemp('classifier')
    images = [cv2.imread(str(path)) for path in sorted((ROOT / 'demo/coco_sample/train2017').iterdir())]
    small = np.stack([cv2.resize(image, (32, 32)) for image in images]).transpose(0, 3, 1, 2).reshape(-1, 3072)
    for name in ('data_batch_1', 'data_batch_2', 'data_batch_3', 'data_batch_4', 'data_batch_5', 'test_batch'):
        (folder / name).write_bytes(pickle.dumps(dict(data=small, labels=[index % 10 for index in range(32)])))

    cfg = Config.fromfile(ROOT / 'configs/cifar10/cpu/resnet20.py')
    options = {'train_cfg.max_epochs': 2, 'train_cfg.val_interval': 1, 'default_hooks.logger.interval': 1}
    options['default_hooks.checkpoint.interval'] = 1
    for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        options[f'{loader}.num_workers'] = 0
        options[f'{loader}.persistent_workers'] = False
        options[f'{loader}.batch_size'] = 16
        options[f'{loader}.dataset.indices'] = 32
        options[f'{loader}.dataset.data_root'] = str(folder)
        options[f'{loader}.dataset.data_prefix.root'] = ''
    cfg.merge_from_dict(options)
    cfg.dump(folder / 'config.py')
    return folder


@pytest.fixture(scope='module')
def ran(detector, classifier):
    """Every command that docs/analysis.md shows, finished."""
    import mmdet
    import mmpretrain

    tools = Path(mmdet.__path__[0], '.mim/tools/analysis_tools')
    behind = detector / 'behind_rebnn_mm.py'
    page = (ROOT / 'docs/analysis.md').read_text()
    behind.write_text(re.search(r"^WITH='([^']*)'$", page, re.MULTILINE)[1])
    other = Path(mmpretrain.__path__[0], '.mim/tools/analysis_tools')
    schedule = other.parent / 'visualization/vis_scheduler.py'
    config, out = detector / 'config.py', detector / 'found.pkl'
    log = detector / 'run/*/vis_data/scalars.json'
    commands = {
        'train': ['tools/train.py', config, '--work-dir', detector / 'run'],
        'test': ['tools/test.py', config, detector / 'run/iter_2.pth', '--work-dir', detector / 'test', '--out', out],
        'browse': [behind, tools / 'browse_dataset.py', config, '--output-dir', detector / 'browsed', '--not-show'],
        'metric': [tools / 'eval_metric.py', config, detector / 'right.pkl'],
        'results': [tools / 'analyze_results.py', config, detector / 'half.pkl', detector / 'ranked', '--topk', 2],
        'errors': [
            *(tools / 'coco_error_analysis.py', detector / 'found.bbox.json', detector / 'errors'),
            *('--ann', detector / 'annotations/instances_val2017.json'),
        ],
        'dataloader': [tools / 'benchmark.py', config, '--max-iter', 4, '--num-warmup', 1, '--log-interval', 2],
        'time': [other / 'analyze_logs.py', 'cal_train_time', log],
        'curves': [
            *(other / 'analyze_logs.py', 'plot_curve', log, '--keys', 'loss', 'rebnn/flips_per_million'),
            *('coco/bbox_mAP_50', '--out', detector / 'curves.svg'),
        ],
    }
    config, out = classifier / 'config.py', classifier / 'found.pkl'
    saved = classifier / 'run/epoch_2.pth'
    commands |= {
        'cls_train': ['tools/train.py', config, '--work-dir', classifier / 'run'],
        'cls_test': ['tools/test.py', config, saved, '--work-dir', classifier / 'test', '--out', out],
        'cls_matrix': [
            *(behind, other / 'confusion_matrix.py', config, out, '--out', classifier / 'matrix.pkl'),
            *('--show-path', classifier / 'matrix.png', '--include-values'),
        ],
        'cls_metric': [other / 'eval_metric.py', out, '--metric', 'type=Accuracy', 'topk=1,5'],
        'schedule': [schedule, config, '--dataset-size', 320, '--not-show', '--save-path', classifier / 'rate.svg'],
    }
    return {name: run(command) for name, command in commands.items()}


@pytest.mark.parametrize(
    ('command', 'words'),
    [
        ('browse', ''),
        ('metric', r"'coco/bbox_mAP': 1.0, 'coco/bbox_mAP_50': 1.0"),
        ('results', ''),
        ('errors', ''),
        ('dataloader', r'Overall fps: [\d.]+ batch/s'),
        ('time', r'average iter time: [\d.]+ s/iter'),
        ('curves', ''),
        ('cls_matrix', ''),
        ('schedule', 'Iterations per epoch: 20'),
    ],
)
def test_each_tool_ends_well(ran, command, words):
    if command == 'dataloader':
        pytest.importorskip('psutil', reason="mmdet's benchmark does not import without it")
    assert ran[command].code == 0 and re.search(words, ran[command].text), ran[command].text


def test_what_they_write(ran, detector, classifier):
    assert len(list((detector / 'browsed').iterdir())) == len(TRAIN)
    images = json.loads((detector / 'annotations/instances_val2017.json').read_text())['images']
    names = [image['file_name'].removesuffix('.jpg') for image in images]
    for kind, score, wanted in (('good', 1.0, names[:2]), ('bad', 0.0, names[2:])):
        found = {path.name for path in (detector / 'ranked' / kind).iterdir()}
        assert found == {f'{name}_{score}.jpg' for name in wanted}
    assert len(list((detector / 'errors/bbox').iterdir())) == 4 * (len(CLASSES) + 1)
    assert all((folder / name).is_file() for folder, name in ((detector, 'curves.svg'), (classifier, 'rate.svg')))


def test_scores_of_a_classifier_agree_with_its_matrix(ran, classifier):
    matrix = pickle.loads((classifier / 'matrix.pkl').read_bytes())
    assert matrix.sum(dim=1).tolist() == [4, 4, 3, 3, 3, 3, 3, 3, 3, 3]  # labels of the images
    (score,) = re.findall(r"'accuracy/top1': ([\d.]+)", ran['cls_metric'].text)
    assert float(score) == pytest.approx(100 * matrix.trace().item() / 32)
    assert f'accuracy/top1: {float(score):.4g}' in ran['cls_test'].text  # as tools/test.py said
