"""A config for the committed sample, read, built and, once, trained with."""

import errno
import io
import json
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.registry import DATASETS, MODELS, TASK_UTILS, DefaultScope, init_default_scope
from mmengine.runner import load_checkpoint

pytest.importorskip('mmdet')

from rebnn_mm.cli import fit, new_config
from rebnn_mm.cli.new_config_options import BASES, BINARY_STARTS, STARTS, parse_args
from rebnn_mm.datasets.annotated_folder import Annotated
from rebnn_mm.datasets.photo_places import Box, Photo
from rebnn_mm.utils import checkpoint
from tests.scripts import ROOT, run_script

SAMPLE = ROOT / 'demo' / 'coco_sample'
ATSS = 'rebnn_mm::bccd/atss_r18_rebnn_taught_bccd.py'
TAUGHT = (BASES['two-stage'].format('_taught'), ATSS, BASES['tiny'].format('_taught'))
FEW_REGIONS = ('model.train_cfg.rpn_proposal.max_per_img=20', 'model.test_cfg.rpn.max_per_img=20')


def write(out: Path, *arguments: object) -> Config:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sys, 'argv', ['rebnn new-config', '--data', str(SAMPLE), '--out', str(out), *map(str, arguments)]
        )
        new_config.main()
    return Config.fromfile(out)


@pytest.fixture(scope='module')
def cfg(tmp_path_factory):
    return write(tmp_path_factory.mktemp('new') / 'folder' / 'mine.py')


def test_classes_are_those_with_boxes_everywhere(cfg):
    classes = cfg.train_dataloader.dataset.metainfo.classes
    assert len(classes) == 53 == cfg.model.bbox_head.num_classes
    assert cfg.val_dataloader.dataset.metainfo.classes == classes


@pytest.mark.parametrize('name', ['photos\nassert False', 'photos {{_base_.model}}', 'photos {{ fileDirname }}'])
def test_the_name_of_a_folder_puts_nothing_into_the_config(name, tmp_path):
    folder = tmp_path / name
    shutil.copytree(SAMPLE, folder)
    assert write(tmp_path / 'mine.py', '--data', folder).data_root == f'{folder}/'


def test_the_rest_is_the_base(cfg):
    base = Config.fromfile(ROOT / 'configs/one_bit/tiny_bccd.py')
    base.optim_wrapper.optimizer.lr *= new_config.DETECTOR_RATE
    assert cfg.model.backbone == base.model.backbone and cfg.optim_wrapper == base.optim_wrapper
    assert cfg.model.data_preprocessor == base.model.data_preprocessor
    assert cfg.custom_hooks == base.custom_hooks


def test_anchors_cover_more_than_those_of_the_base(capsys, tmp_path):
    cfg = write(tmp_path / 'again.py', '--base', 'two-stage')
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith('  anchors ')]
    base, chosen = (int(re.search(r'(\d+) %', line)[1]) for line in lines)
    assert chosen > 80 > 60 > base
    generator = cfg.model.rpn_head.anchor_generator
    assert ', '.join(f'{scale:g}' for scale in generator['scales']) in lines[1]


def test_mmdet_reads_the_annotations(cfg):
    init_default_scope('mmdet')
    for loader, split in ((cfg.train_dataloader, 'train'), (cfg.val_dataloader, 'val')):
        dataset = DATASETS.build(loader.dataset)
        source = json.loads((SAMPLE / f'annotations/instances_{split}2017.json').read_text())
        names = {category['id']: category['name'] for category in source['categories']}
        expected = sorted(names[entry['category_id']] for entry in source['annotations'] if not entry['iscrowd'])
        found = [instance for index in range(len(dataset)) for instance in dataset.get_data_info(index)['instances']]
        ours = [dataset.metainfo['classes'][entry['bbox_label']] for entry in found if not entry['ignore_flag']]
        assert sorted(ours) == expected
        assert dataset[0]['inputs'].shape[0] == 3


def test_epochs_make_the_steps_of_the_base(cfg):
    assert cfg.train_cfg.max_epochs == 150  # of 32 images, 4 at a time
    assert [step.end for step in cfg.param_scheduler] == [50, 150]


def test_an_epoch_has_the_images_that_are_trained_on():
    photos = [Photo(f'{number}.png', 8, 8, [Box('cat', 1, 1, 4, 4)] if number < 9 else []) for number in range(20)]
    data = Annotated(Path('.'), ('cat',), dict(train=photos), [])
    for batch, steps, without in ((4, 5, 3), (9, 3, 1), (32, 1, 1)):
        base = Config(dict(train_dataloader=dict(batch_size=batch)))
        assert (new_config.steps_of(base, data), new_config.steps_of(base, data, False)) == (steps, without)


FORMS = ROOT / 'tests' / 'datasets' / 'forms'
SMALL = ('--size', 96, 64, '--epochs', 1)


def first_losses(cfg: Config, images: list[int]) -> dict[str, torch.Tensor]:
    """The losses of a training step on these images, after the gradient was taken."""
    init_default_scope('mmdet')
    if 'teacher' in cfg.model:
        teacher = MODELS.build(Config.fromfile(cfg.model.teacher).model)
        Path(cfg.model.teacher_checkpoint).parent.mkdir(parents=True, exist_ok=True)
        torch.save(dict(state_dict=teacher.state_dict()), cfg.model.teacher_checkpoint)
    dataset, model = DATASETS.build(cfg.train_dataloader.dataset), MODELS.build(cfg.model).train()
    model.init_weights()
    batch = model.data_preprocessor(pseudo_collate([dataset[index] for index in images]), training=True)
    parsed, losses = model.parse_losses(model(**batch, mode='loss'))
    parsed.backward()
    assert all(value.grad is None or value.grad.isfinite().all() for value in model.parameters())
    return losses


@pytest.mark.parametrize(
    'base',
    ['two-stage', 'tiny', *(pytest.param(base, marks=pytest.mark.slow) for base in TAUGHT)],
)
def test_images_without_a_box_are_trained_on(base, tmp_path, monkeypatch):
    torch.manual_seed(0)
    monkeypatch.chdir(tmp_path)
    cfg = write(tmp_path / 'mine.py', '--data', FORMS / 'yolo_roboflow', '--base', base, *SMALL)
    for images in ([2, 2], [0, 2]):
        losses = first_losses(cfg, images)
        assert all(value.isfinite() for value in losses.values())
    cfg = write(tmp_path / 'mine.py', '--data', FORMS / 'yolo_roboflow', '--base', base, '--no-negatives', *SMALL)
    init_default_scope('mmdet')
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    names = [Path(dataset.get_data_info(index)['img_path']).stem for index in range(len(dataset))]
    assert names == ['p0', 'p1', 'p3']


def test_an_input_of_one_place_at_the_largest_stride_is_trained_on(tmp_path):
    cfg = write(tmp_path / 'mine.py', '--data', FORMS / 'yolo_roboflow', '--size', 32, 32, '--epochs', 1)
    assert all(value.isfinite() for value in first_losses(cfg, [0]).values())


def steps_of(cfg: Config) -> list[str]:
    return [step['type'] for step in cfg.train_dataloader.dataset.pipeline]


FLIPS = ['LoadImageFromFile', 'LoadAnnotations', 'Resize', 'RandomFlip', 'PackDetInputs']


def test_the_kind_of_images_says_how_they_are_changed(tmp_path, capsys, cfg):
    assert steps_of(cfg)[2:7] == [
        'RandomResize', 'RandomCrop', 'FilterAnnotations', 'RandomFlip', 'PhotoMetricDistortion'
    ]  # fmt: skip
    cells = write(tmp_path / 'cells.py', '--data', ROOT / 'demo' / 'blood_cells')
    out = capsys.readouterr().out
    assert 'augment: microscope, flips in all directions: most images have one size, and sizes of objects' in out
    assert steps_of(cells) == FLIPS
    assert set(cells.train_pipeline[3].direction) == {'horizontal', 'vertical', 'diagonal'}
    still = write(tmp_path / 'none.py', '--augment', 'none')
    assert steps_of(still) == FLIPS and 'direction' not in still.train_pipeline[3]
    assert 'augment: none, left-right flips, as asked for' in capsys.readouterr().out
    write(tmp_path / 'auto.py')
    assert 'augment: photos, varied size, crop and colour: the images have many sizes (' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('wide', 'boxes', 'photographs'),
    [((10, 20, 30), (9, 9, 9), True), ((10, 10, 30), (9, 9, 9), False), ((10, 10, 10), (1, 3, 9), True)],
    ids=['many sizes', 'most of one', 'near and far'],
)
def test_photographs_have_many_sizes_or_objects_near_and_far(wide, boxes, photographs):
    found = [
        SimpleNamespace(width=w, height=10, boxes=[SimpleNamespace(name='cell', crowd=False, width=size, height=size)])
        for w, size in zip(wide, boxes, strict=True)
    ]
    assert new_config.of_photographs(SimpleNamespace(splits=dict(train=found))) == photographs


@pytest.mark.parametrize('kept', [True, False])
def test_changed_images_without_a_box_are_kept_where_negatives_are(tmp_path, kept):
    flags = ('--augment', 'photos', '--negatives' if kept else '--no-negatives')
    cfg = write(tmp_path / 'mine.py', '--data', FORMS / 'yolo_roboflow', *flags, *SMALL)
    init_default_scope('mmdet')
    dataset = DATASETS.build(cfg.train_dataloader.dataset)
    np.random.seed(0)
    counts = [
        (Path(sample['data_samples'].img_path).stem, len(sample['data_samples'].gt_instances))
        for _ in range(10)
        for sample in dataset
    ]
    shapes = [dataset[0]['inputs'].shape[1:] for _ in range(10)]
    assert max(max(shape) for shape in shapes) == 96 and len(set(shapes)) > 3
    assert (('p2', 0) in counts) is kept and (kept or min(count for _, count in counts) > 0)


@pytest.mark.parametrize('kind', ['atss', 'retinanet'])
def test_a_pyramid_gets_a_scale_for_large_objects(kind):
    base = Config.fromfile(ROOT / f'configs/bccd/{kind}_r18_rebnn_bccd.py').model
    draw = np.random.default_rng(0)
    sides = np.exp(draw.normal(4.8, 0.5, (500, 1)) + draw.normal(0, 0.1, (500, 2)))
    changes, _ = new_config.model_changes(Config(dict(model=base)), 1, sides, ['cat'] * 500, 320)
    generators = (
        base.bbox_head.anchor_generator,
        base.bbox_head.anchor_generator | changes['bbox_head']['anchor_generator'],
    )
    assert len(generators[0]['ratios']) == len(generators[1]['ratios']) and changes['bbox_head']['num_classes'] == 1
    found = []
    for options in generators:
        with DefaultScope.overwrite_default_scope('mmdet'):
            anchors = torch.cat(TASK_UTILS.build(options).base_anchors)
        anchors = (anchors[:, 2:] - anchors[:, :2]).numpy()
        both = np.minimum(sides[:, None], anchors).prod(2)
        found.append(np.mean((both / (sides.prod(1)[:, None] + anchors.prod(1) - both)).max(1) > 0.5))
    assert found[0] < 0.7 < 0.9 < found[1]


def test_a_pyramid_of_many_sizes_is_kept():
    base = Config.fromfile(ROOT / 'configs/bccd/atss_r18_rebnn_bccd.py')
    sides = np.exp(np.random.default_rng(0).normal(3.7, 0.5, (500, 1))) * np.ones(2)
    changes, (old, new) = new_config.model_changes(base, 1, sides, ['cat'] * 500, 320)
    assert changes == dict(bbox_head=dict(num_classes=1)) and new is old


@pytest.mark.parametrize('base', ['yolox/yolox_tiny_8xb8-300e_coco.py', 'rtmdet/rtmdet_tiny_8xb32-300e_coco.py'])
def test_what_a_base_does_to_its_own_pipelines_is_left_out(base, tmp_path):
    (tmp_path / 'base.py').write_text(f"_base_ = 'mmdet::{base}'\n")
    cfg = write(tmp_path / 'mine.py', '--base', tmp_path / 'base.py')
    assert 'EMAHook' in [hook.type for hook in cfg.custom_hooks]
    assert not any('Switch' in hook.type for hook in cfg.custom_hooks)
    assert cfg.model.data_preprocessor.batch_augments is None and cfg.model.data_preprocessor.pad_size_divisor == 32


def test_what_is_asked_for_goes_before(tmp_path):
    cfg = write(
        tmp_path / 'mine.py',
        '--size',
        200,
        100,
        '--epochs',
        2,
        '--base',
        'rebnn_mm::coco/faster_rcnn_r18_fpn_rebnn_coco.py',
    )
    assert cfg.scale == (200, 100) and cfg.train_cfg.max_epochs == 2
    generator = cfg.model.rpn_head.anchor_generator
    assert generator.strides == [4, 8, 16, 32, 64] and generator.scales[0] < 8  # for inputs so small
    assert cfg.param_scheduler[-1].milestones == [1, 2] or cfg.param_scheduler[-1].get('end') == 2


@pytest.mark.parametrize(
    'kind',
    [['--teacher'], ['--base', ATSS], *(['--base', name, '--teacher'] for name in ('two-stage', 'nano', 'small'))],
    ids=' '.join,
)
def test_a_taught_detector_is_two_configs_that_fit(kind, tmp_path, capsys):
    student = write(tmp_path / 'mine.py', *kind)
    teacher = Config.fromfile(tmp_path / 'mine_teacher.py')
    assert (
        f'rebnn train {tmp_path / "mine_teacher.py"} && rebnn train {tmp_path / "mine.py"}' in capsys.readouterr().out
    )
    assert student.model.teacher == str(tmp_path / 'mine_teacher.py')
    assert student.model.teacher_checkpoint == f'work_dirs/mine_teacher/epoch_{teacher.train_cfg.max_epochs}.pth'
    assert student.train_dataloader == teacher.train_dataloader and student.train_cfg == teacher.train_cfg
    init_default_scope('mmdet')
    model, alone = MODELS.build(student.model), MODELS.build(teacher.model)
    theirs = {name: value.shape for name, value in alone.state_dict().items()}
    assert {name: value.shape for name, value in model.teacher.state_dict().items()} == theirs
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    assert shapes.items() >= theirs.items()
    for cfg in (student.model, teacher.model):
        assert cfg.get('roi_head', cfg).bbox_head.num_classes == 53


@pytest.fixture(scope='module')
def classifiers(tmp_path_factory) -> dict[str, Path]:
    """Checkpoints of mmdet's blocks and of those of a teacher, no value where initialisation would put it."""
    from mmdet.models import ResNet

    from rebnn_mm.models import BinaryResNet

    folder, made = tmp_path_factory.mktemp('classifiers'), {}
    for name, backbone in (('mmdet', ResNet(18)), ('teacher', BinaryResNet(18, conv_cfg=None))):
        state = {f'backbone.{key}': torch.rand_like(value.float()) for key, value in backbone.state_dict().items()}
        torch.save(dict(state_dict={**state, 'head.fc.weight': torch.zeros(50, 512)}), folder / f'{name}.pth')
        made[name] = folder / f'{name}.pth'
    return made


@pytest.mark.parametrize(
    ('kind', 'blocks', 'first'),
    [
        (['--base', 'two-stage', '--teacher'], 'teacher', 'mine_teacher'),
        (['--base', ATSS], 'teacher', 'mine_teacher'),
        (['--base', 'rebnn_mm::bccd/faster_rcnn_r18_bccd.py'], 'mmdet', 'mine'),
    ],
    ids=['taught', 'one stage', 'twin'],
)
def test_a_detector_starts_from_a_classifier_of_its_blocks(kind, blocks, first, classifiers, tmp_path):
    last = write(tmp_path / 'mine.py', *kind, '--start', classifiers[blocks])
    init_default_scope('mmdet')
    cfg = Config.fromfile(tmp_path / f'{first}.py').model
    model = MODELS.build(cfg)
    model.init_weights()
    learned = torch.load(classifiers[blocks])['state_dict']
    filled = {**model.backbone.state_dict()}
    if 'roi_head' in cfg:
        filled |= model.roi_head.shared_head.state_dict()
    assert {f'backbone.{key}' for key in filled} == {key for key in learned if key.startswith('backbone.')}
    assert all(torch.equal(value, learned[f'backbone.{key}'].to(value.dtype)) for key, value in filled.items())
    assert first == 'mine' or 'init_cfg' not in last.model.backbone


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A start of the package for tiny."""
    options = Config.fromfile(ROOT / 'configs/one_bit/tiny_teacher_bccd.py').model.backbone
    state = MODELS.build(options).state_dict(prefix='backbone.')
    np.savez(tmp_path / 'one.npz', **{key: np.ones_like(value.numpy()) for key, value in state.items()})
    monkeypatch.setattr(checkpoint, 'STARTS', tmp_path)
    monkeypatch.setitem(STARTS, 'tiny', dict(photos='rebnn://one'))


def test_the_teacher_of_tiny_begins_as_the_package_says(shipped, tmp_path, capsys):
    student = write(tmp_path / 'mine.py', '--teacher')
    assert (
        'start: rebnn://one (learned from photographs with non-commercial terms; --start none'
        in capsys.readouterr().out
    )
    options = Config.fromfile(tmp_path / 'mine_teacher.py').model.backbone
    assert 'init_cfg' not in student.model.backbone
    backbone = MODELS.build(options)
    backbone.init_weights()
    assert all((value == 1).all() for value in backbone.state_dict().values())


@pytest.mark.parametrize('base', STARTS)
def test_the_teacher_begins_as_the_detector_that_the_package_holds(base, tmp_path):
    student = write(tmp_path / 'mine.py', '--base', base, '--teacher')
    teacher = Config.fromfile(tmp_path / 'mine_teacher.py')
    assert teacher.load_from == STARTS[base]['photos'] and teacher.optim_wrapper.optimizer.lr == pytest.approx(2e-4)
    assert student.load_from == BINARY_STARTS[teacher.load_from]
    assert student.optim_wrapper.optimizer.lr == pytest.approx(2e-4)
    init_default_scope('mmdet')
    alone = Config.fromfile(ROOT / 'configs/one_bit/tiny_bccd.py').model
    alone.bbox_head.num_classes = teacher.model.bbox_head.num_classes
    for options, start in ((teacher.model, teacher.load_from), (alone, student.load_from)):
        model = MODELS.build(options)
        learned = load_checkpoint(model, start, map_location='cpu')['state_dict']
        kept = {key for key, value in model.state_dict().items() if torch.equal(value, learned[key])}
        assert {key for key in model.state_dict() if key not in kept} == {
            f'bbox_head.rtm_cls.{level}.{part}' for level in range(3) for part in ('weight', 'bias')
        }


@pytest.mark.parametrize(('augment', 'rate'), [('photos', 2e-4), ('microscope', 1e-3), ('none', 1e-3)])
def test_a_1_bit_detector_without_a_teacher_begins_as_one(augment, rate, tmp_path, capsys):
    alone = write(tmp_path / 'mine.py', '--augment', augment)
    assert alone.load_from == BINARY_STARTS[STARTS['tiny'][augment]]
    assert alone.optim_wrapper.optimizer.lr == pytest.approx(rate)
    assert f'start: {alone.load_from} (learned from photographs with non-commercial terms' in capsys.readouterr().out


def test_a_student_of_other_binary_layers_begins_as_its_teacher(tmp_path):
    base = tmp_path / 'other_taught.py'
    base.write_text(
        "_base_ = 'rebnn_mm::one_bit/tiny_taught_bccd.py'\n"
        "model = dict(backbone=dict(conv_cfg=dict(type='XNORConv2d')))"
    )
    student = write(tmp_path / 'mine.py', '--base', base, '--start', 'rebnn://one_bit_tiny_photos')
    assert Config.fromfile(tmp_path / 'mine_teacher.py').load_from == 'rebnn://one_bit_tiny_photos'
    assert student.get('load_from') is None and student.optim_wrapper.optimizer.lr == 1e-3


@pytest.mark.parametrize('augment', ['microscope', 'none'])
def test_the_teacher_of_other_images_begins_as_a_classifier(augment, tmp_path):
    student = write(tmp_path / 'mine.py', '--teacher', '--augment', augment)
    assert student.load_from == BINARY_STARTS[STARTS['tiny'][augment]] and student.optim_wrapper.optimizer.lr == 1e-3
    teacher = Config.fromfile(tmp_path / 'mine_teacher.py')
    assert teacher.get('load_from') is None and teacher.optim_wrapper.optimizer.lr == 1e-3
    backbone = MODELS.build(teacher.model.backbone)
    backbone.init_weights()
    assert all(layer.running_mean.abs().max() > 0 for layer in backbone.modules() if hasattr(layer, 'running_mean'))


@pytest.mark.parametrize(('channels', 'whole'), [(128, True), (64, False)], ids=['same', 'other'])
def test_a_detector_starts_from_all_of_one_of_its_blocks(channels, whole, tmp_path):
    theirs = Config.fromfile(ROOT / 'configs/one_bit/tiny_teacher_bccd.py').model
    theirs.neck.out_channels = theirs.bbox_head.in_channels = channels
    init_default_scope('mmdet')
    path = tmp_path / 'theirs.pth'
    torch.save(dict(state_dict=MODELS.build(theirs).state_dict()), path)
    write(tmp_path / 'mine.py', '--teacher', '--start', path)
    mine = Config.fromfile(tmp_path / 'mine_teacher.py')
    begun = mine.load_from if whole else mine.model.backbone.init_cfg.checkpoint
    assert begun == str(path) and ('init_cfg' in mine.model.backbone) != whole


@pytest.mark.parametrize(
    'words',
    [['--teacher', '--start', 'none'], ['--start', 'none'], ['--base', 'nano', '--teacher']],
    ids=' '.join,
)
def test_others_begin_with_random_weights(words, shipped, tmp_path, capsys):
    write(tmp_path / 'mine.py', *words)
    assert 'start: random weights\n' in capsys.readouterr().out
    assert not any('init_cfg' in path.read_text() for path in tmp_path.glob('*.py'))


def test_what_is_no_checkpoint_is_refused(tmp_path, capsys):
    (tmp_path / 'cut.pth').write_bytes(b'no checkpoint')
    with pytest.raises(SystemExit):
        write(tmp_path / 'mine.py', '--teacher', '--start', tmp_path / 'cut.pth')
    last = capsys.readouterr().err.splitlines()[-1]  # after what libraries may have to say on their first import
    assert str(tmp_path / 'cut.pth') in last and [path.name for path in tmp_path.iterdir()] == ['cut.pth']


def test_a_classifier_of_other_blocks_is_refused(classifiers, tmp_path, capsys):
    with pytest.raises(SystemExit):
        write(tmp_path / 'mine.py', '--teacher', '--start', classifiers['mmdet'])
    assert 'does not fit the backbone of rebnn_mm::one_bit/tiny_teacher_bccd.py: of' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_teacher_that_counts_iterations_is_refused(tmp_path, capsys):
    (tmp_path / 'base.py').write_text(f"_base_ = '{ATSS}'\nmodel = dict(teacher='{tmp_path}/other.py')\n")
    (tmp_path / 'other.py').write_text("_base_ = 'rebnn_mm::coco/ssd300_vgg16_rebnn_coco.py'\n")
    with pytest.raises(SystemExit):
        write(tmp_path / 'mine.py', '--base', tmp_path / 'base.py')
    assert 'or the config of its teacher counts iterations' in capsys.readouterr().err
    assert not list(tmp_path.glob('mine*'))


def test_names_with_brackets_are_printed_as_they_are(tmp_path, capsys):
    sample = json.loads((SAMPLE / 'annotations/instances_val2017.json').read_text())
    for category, name in zip(sample['categories'], ('[red] box', '[/x]', ':smile:'), strict=False):
        category['name'] = name
    for entry in sample['annotations']:
        entry['category_id'] = sample['categories'][entry['category_id'] % 3]['id']
    (tmp_path / 'labels.json').write_text(json.dumps(sample))
    (tmp_path / 'images').symlink_to(SAMPLE / 'val2017')
    write(tmp_path / 'mine.py', '--data', tmp_path)
    rows = [line.split('│')[1].strip() for line in capsys.readouterr().out.splitlines() if line.startswith('│')]
    assert sorted(rows) == [':smile:', '[/x]', '[red] box']


def test_names_of_files_that_are_no_unicode_are_printed(tmp_path, monkeypatch):
    folder = tmp_path / 'coco'
    shutil.copytree(FORMS / 'coco', folder)
    labels = next(path for path in folder.rglob('*.json') if 'train' in str(path))
    content = json.loads(labels.read_text())
    image = next(folder.rglob(Path(content['images'][0]['file_name']).name))
    shutil.copy(image, image.with_name(f'\udce4{image.suffix}'))  # as an archive of old names unpacks
    content['images'].insert(0, {**content['images'][0], 'id': 99, 'file_name': f'\udce4{image.suffix}'})
    labels.write_text(json.dumps(content))
    shown = io.BytesIO()
    monkeypatch.setattr(sys, 'stdout', io.TextIOWrapper(shown, 'utf-8'))
    write(tmp_path / 'mine.py', '--data', folder)
    assert rb'the first: train/\udce4.jpg' in shown.getvalue()


def test_what_is_not_its_own_is_not_written_over(tmp_path, capsys):
    out = tmp_path / 'mine.py'
    write(out, '--epochs', 3)
    assert write(out, '--epochs', 4).train_cfg.max_epochs == 4
    theirs = tmp_path / 'mine_val.json'
    for path, text in ((theirs, json.dumps(dict(images=[]))), (out, out.read_text().replace('=4', '=5'))):
        before = path.read_text()
        path.write_text(text)
        with pytest.raises(SystemExit):
            write(out)
        assert f'{path} already exists and has been edited; choose another --out.' in capsys.readouterr().err
        assert path.read_text() == text
        path.write_text(before)


def test_a_full_disk_leaves_no_half_config_that_would_be_taken_for_an_edited_one(tmp_path, capsys):
    def fill(descriptor):
        raise OSError(errno.ENOSPC, 'No space left on device')

    out = tmp_path / 'mine.py'
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, 'fsync', fill)
        with pytest.raises(SystemExit):
            write(out)
    assert 'No space left on device' in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    write(out)


@pytest.mark.parametrize('given', [list, tuple, lambda steps: steps[1]])
def test_schedules_keep_their_form(given):
    cosine = dict(type='CosineAnnealingLR', begin=150, end=300, T_max=150, by_epoch=True, convert_to_iter_based=True)
    warm = dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=1000)
    text = new_config.schedule(
        Config(dict(train_cfg=dict(max_epochs=300), param_scheduler=given([warm, cosine]))), 24, 50
    )
    steps = Config.fromstring(text, '.py').param_scheduler
    assert steps[-1] == {**cosine, 'begin': 12, 'end': 24, 'T_max': 12}
    assert steps[:-1] in ([], [{**warm, 'end': 60}])  # of 1,200 steps
    once = dict(type='ConstantLR', factor=1, begin=295, end=300, by_epoch=True)
    text = new_config.schedule(Config(dict(train_cfg=dict(max_epochs=300), param_scheduler=[once])), 12, 9)
    assert Config.fromstring(text, '.py').param_scheduler[0] == {**once, 'begin': 11, 'end': 12}


@pytest.mark.parametrize(
    ('command', 'flag'), [(parse_args, ['--data', 'x', '--teacher']), (fit.parse_args, ['x', '--no-teacher'])]
)
def test_a_config_says_itself_whether_it_has_a_teacher(command, flag, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['rebnn', *flag, '--base', 'mine.py'])
    with pytest.raises(SystemExit):
        command()
    assert f'{flag[-1]} goes with tiny, nano, small, two-stage; mine.py itself says it.' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        (['--out', 'mine.txt'], 'must end in .py'),
        (['--data', 'nowhere'], 'there is no folder '),
        (['--base', 'rebnn_mm::imagenet/resnet18_rebnn_imagenet.py'], 'name the config of a detector as --base'),
        (['--start', 'nowhere.pth'], 'no checkpoint at nowhere.pth.'),
        (['--start', 'rebnn://other'], "rebnn://other: the package has no start 'other'."),
        (['--base', 'nowhere/nano'], 'no config file at nowhere/nano.'),
        (['--base', 'rebnn_mm::coco/ssd300_vgg16_rebnn_coco.py'], 'counts iterations; use configs that count epochs'),
    ],
)
def test_what_cannot_be_done_is_one_sentence(change, words, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(
        sys, 'argv', ['rebnn new-config', '--data', str(SAMPLE), '--out', str(tmp_path / 'mine.py'), *change]
    )
    with pytest.raises(SystemExit) as stopped:
        new_config.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert stopped.value.code == 1 and words in line and not list(tmp_path.iterdir())


def test_a_base_that_is_nearly_a_name_is_suggested(monkeypatch, capsys):
    monkeypatch.setattr(sys, 'argv', ['rebnn new-config', '--data', 'x', '--base', 'nanoo'])
    with pytest.raises(SystemExit):
        parse_args()
    words = "--base nanoo is none of tiny, nano, small, two-stage, and no config. Did you mean 'nano'?"
    assert words in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(('base', 'small'), [('tiny', ()), ('two-stage', FEW_REGIONS)])
def test_a_taught_detector_trains_after_its_teacher(base, small, tmp_path):
    write(tmp_path / 'mine.py', '--base', base, '--teacher', '--epochs', 1)
    few = ('train_dataloader.dataset.indices=4', 'val_dataloader.dataset.indices=2')
    for config in ('mine_teacher.py', 'mine.py'):
        done = run_script('rebnn_command.py', 'train', config, '--cfg-options', *few, *small, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / 'work_dirs/mine/epoch_1.pth').is_file()
