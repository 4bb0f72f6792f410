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

# Nineteen commands, most of them not ours; ours have test files of their own.
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


def pictures(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob('*.*'))


def points_of_curves(svg: Path) -> list[int]:
    """Number of points of each curve in a picture of matplotlib's; only those are clipped to the axes."""
    curves = re.findall(r'<path d="([^"]*)" clip-path="[^"]*" style="fill: none', svg.read_text())
    return [len(re.findall('[ML]', curve)) for curve in curves]


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
    curve = ['plot_curve', log, '--keys', 'loss']
    commands = {
        'train': ['tools/train.py', config, '--work-dir', detector / 'run'],
        'test': ['tools/test.py', config, detector / 'run/iter_2.pth', '--work-dir', detector / 'test', '--out', out],
        'browse': [behind, tools / 'browse_dataset.py', config, '--output-dir', detector / 'browsed', '--not-show'],
        'matrix': [tools / 'confusion_matrix.py', config, detector / 'right.pkl', detector / 'matrix'],
        'our_matrix': [
            *('rebnn confusion', config, detector / 'right.pkl'),
            *('--out', detector / 'our_matrix.png', '--iou-thr', 0.99),  # some objects overlap others
        ],
        'metric': [tools / 'eval_metric.py', config, detector / 'right.pkl'],
        'results': [tools / 'analyze_results.py', config, detector / 'half.pkl', detector / 'ranked', '--topk', 2],
        'errors': [
            *(tools / 'coco_error_analysis.py', detector / 'found.bbox.json', detector / 'errors'),
            *('--ann', detector / 'annotations/instances_val2017.json'),
        ],
        'dataloader': [tools / 'benchmark.py', config, '--max-iter', 4, '--num-warmup', 1, '--log-interval', 2],
        'time': [tools / 'analyze_logs.py', 'cal_train_time', log],
        'curve': [tools / 'analyze_logs.py', *curve, '--style', 'default', '--out', detector / 'curve.svg'],
        'curve_default': [tools / 'analyze_logs.py', *curve, '--out', detector / 'none.svg'],
        'curves': [
            *(other / 'analyze_logs.py', *curve, 'rebnn/flips_per_million', 'coco/bbox_mAP_50'),
            *('--out', detector / 'curves.svg'),
        ],
    }
    config, out = classifier / 'config.py', classifier / 'found.pkl'
    saved = classifier / 'run/epoch_2.pth'
    log = classifier / 'run/*/vis_data/scalars.json'
    commands |= {
        'cls_train': ['tools/train.py', config, '--work-dir', classifier / 'run'],
        'cls_test': ['tools/test.py', config, saved, '--work-dir', classifier / 'test', '--out', out],
        'cls_matrix': [
            *(behind, other / 'confusion_matrix.py', config, out, '--out', classifier / 'matrix.pkl'),
            *('--show-path', classifier / 'matrix.png', '--include-values'),
        ],
        'cls_metric': [other / 'eval_metric.py', out, '--metric', 'type=Accuracy', 'topk=1,5'],
        'cls_curves': [
            *(other / 'analyze_logs.py', 'plot_curve', log, '--keys', 'loss', 'accuracy/top1'),
            *('--out', classifier / 'curves.svg'),
        ],
        'schedule': [schedule, config, '--dataset-size', 320, '--not-show', '--save-path', classifier / 'rate.svg'],
    }
    return {name: run(command) for name, command in commands.items()}


def test_training_shows_the_time_left(ran):
    assert ran['train'].code == 0, ran['train'].text
    steps = re.findall(r'Iter\(train\) \[(\d)/2\].*?eta: (\d+):(\d\d):(\d\d)', ran['train'].text)
    assert [step for step, *_ in steps] == ['1', '2']
    assert steps[1][1:] == ('0', '00', '00')  # nothing is left after the last one
    assert ran['cls_train'].code == 0, ran['cls_train'].text
    epochs = re.findall(r'Epoch\(train\) +\[(\d)\]\[(\d)/2\].*?eta: \d+:\d\d:\d\d', ran['cls_train'].text)
    assert epochs == [('1', '1'), ('1', '2'), ('2', '1'), ('2', '2')]


def test_browse_dataset_draws_the_training_boxes(ran, detector):
    assert ran['browse'].code == 0, ran['browse'].text
    assert pictures(detector / 'browsed') == sorted(TRAIN)
    for name in TRAIN:
        before, after = (cv2.imread(str(folder / name)) for folder in (detector / 'train2017', detector / 'browsed'))
        assert max(after.shape) == 128  # what the network sees
        plain = cv2.resize(before, after.shape[1::-1])
        assert (abs(plain.astype(int) - after) > 80).any(axis=2).mean() > 0.01


def test_confusion_matrix_of_right_predictions_is_a_diagonal(ran, detector):
    assert ran['our_matrix'].code == 0, ran['our_matrix'].text
    rows = [line for line in ran['our_matrix'].text.splitlines() if '│' in line]
    numbers = [[int(number) for number in re.findall(r'\d+', row)] for row in rows]
    objects = json.loads((detector / 'annotations/instances_val2017.json').read_text())['annotations']
    assert sum(map(sum, numbers)) == len(objects)
    assert all(numbers[row][column] == 0 for row in range(4) for column in range(4) if row != column)


def test_mmdets_picture_of_a_small_confusion_matrix_is_tiny_as_documented(ran, detector):
    assert ran['matrix'].code == 0, ran['matrix'].text
    assert cv2.imread(str(detector / 'matrix/confusion_matrix.png')).shape == (288, 360, 3)


def test_eval_metric_scores_predictions_without_the_network(ran):
    assert ran['metric'].code == 0, ran['metric'].text
    assert "'coco/bbox_mAP': 1.0, 'coco/bbox_mAP_50': 1.0" in ran['metric'].text


def test_analyze_results_finds_the_good_and_the_bad_images(ran, detector):
    assert ran['results'].code == 0, ran['results'].text
    images = json.loads((detector / 'annotations/instances_val2017.json').read_text())['images']
    names = [image['file_name'].removesuffix('.jpg') for image in images]
    good, bad = [f'{name}_1.0.jpg' for name in names[:2]], [f'{name}_0.0.jpg' for name in names[2:]]
    assert pictures(detector / 'ranked/good') == sorted(good)
    assert pictures(detector / 'ranked/bad') == sorted(bad)


def test_coco_error_analysis_draws_precision_over_recall(ran, detector):
    assert ran['errors'].code == 0, ran['errors'].text
    areas = ('allarea', 'small', 'medium', 'large')
    wanted = [f'bbox-{name}-{area}.png' for name in (*CLASSES, 'allclass') for area in areas]
    assert pictures(detector / 'errors/bbox') == sorted(wanted)
    assert len(json.loads((detector / 'found.bbox.json').read_text())) == 5 * len(TEST)


def test_benchmark_times_the_data_loader(ran):
    pytest.importorskip('psutil', reason="mmdet's benchmark does not import without it")
    assert ran['dataloader'].code == 0, ran['dataloader'].text
    assert re.search(r'Overall fps: [\d.]+ batch/s', ran['dataloader'].text)


def test_time_per_iteration_is_that_of_the_log(ran, detector):
    assert ran['time'].code == 0, ran['time'].text
    (log,) = detector.glob('run/*/vis_data/scalars.json')
    times = [entry['time'] for entry in map(json.loads, log.read_text().splitlines()) if 'lr' in entry]
    (average,) = re.findall(r'average iter time: ([\d.]+) s/iter', ran['time'].text)
    # The first entry is an outlier, which the tool leaves out; validation's own entry has a time, too.
    assert float(average) == pytest.approx(times[1], abs=5e-5)


def test_curves_of_a_run_come_from_mmpretrains_tool(ran, detector):
    assert ran['curves'].code == 0, ran['curves'].text
    assert points_of_curves(detector / 'curves.svg') == [2, 2, 1]


def test_curves_of_mmdets_tool_are_empty_as_documented(ran, detector):
    assert ran['curve_default'].code == 1 and "'dark' is not a valid package style" in ran['curve_default'].text
    assert ran['curve'].code == 0, ran['curve'].text
    assert points_of_curves(detector / 'curve.svg') == []


def test_confusion_matrix_of_a_classifier_holds_every_image(ran, classifier):
    assert ran['cls_matrix'].code == 0, ran['cls_matrix'].text
    matrix = pickle.loads((classifier / 'matrix.pkl').read_bytes())
    assert matrix.sum() == 32
    assert matrix.sum(dim=1).tolist() == [4, 4, 3, 3, 3, 3, 3, 3, 3, 3]  # labels of the images
    assert cv2.imread(str(classifier / 'matrix.png')).std() > 10


def test_eval_metric_of_a_classifier_agrees_with_the_matrix(ran, classifier):
    matrix = pickle.loads((classifier / 'matrix.pkl').read_bytes())
    (score,) = re.findall(r"'accuracy/top1': ([\d.]+)", ran['cls_metric'].text)
    assert float(score) == pytest.approx(100 * matrix.trace().item() / 32)
    assert f'accuracy/top1: {float(score):.4g}' in ran['cls_test'].text  # as tools/test.py said


def test_curves_of_a_classifier(ran, classifier):
    assert ran['cls_curves'].code == 0, ran['cls_curves'].text
    assert points_of_curves(classifier / 'curves.svg') == [4, 2]


def test_learning_rate_is_drawn_for_every_iteration(ran, classifier):
    assert ran['schedule'].code == 0, ran['schedule'].text
    assert 'Iterations per epoch: 20' in ran['schedule'].text
    assert len(points_of_curves(classifier / 'rate.svg')) == 1
