"""Write a config for a folder of images with boxes; `new_config_options` has what it takes and an overview."""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from mmengine.config import Config
from mmengine.registry import MODELS, DefaultScope
from mmengine.runner import CheckpointLoader
from rich.table import Table

from rebnn_mm.analysis.anchor_choice import Anchors, describe_generator_change, equal_classes
from rebnn_mm.cli.new_config_options import BASES, BINARY_STARTS, STEPS, parse_args
from rebnn_mm.datasets.annotated_folder import WRITTEN, Annotated, as_coco, read_annotated
from rebnn_mm.datasets.photo_places import SPLITS
from rebnn_mm.deploy.errors import clean_text
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.utils.checkpoint import QUANTIZER, check_checkpoint_file, match_keys
from rebnn_mm.utils.command_line import check_writable
from rebnn_mm.utils.config_file import SCOPE, config_path, read_config
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.console import plain_console
from rebnn_mm.utils.data_files import type_name

EDGES = (320, 480, 640)
"""Long edges of the network's input that are tried: the first at which few objects are small."""

SMALLEST = 12
"""Pixels that nine of ten objects should be wide and high."""

SPREAD = 1.5
"""Factor from which sizes within a class are those of photographs. It is 1.1 to 1.3 for the blood cells, which a
microscope shows at one magnification, and 1.7 to 3.4 for the COCO sample."""

HEADS = ('bbox_head.', 'rpn_head.')
"""Keys of a detector's checkpoint that no classifier has."""

DETECTOR_RATE = 0.2
"""Of the usual rate, for a detector that starts from one of images like its own."""

WARM_UPS = ('LinearLR', 'ConstantLR', 'QuadraticWarmupLR')
"""Schedules of the first iterations."""

SWITCHES = ('PipelineSwitchHook', 'YOLOXModeSwitchHook')
"""Hooks that change a pipeline, or a data set of several images, of the base for its last epochs."""

MONITOR = 'coco/bbox_mAP'
"""The score of the validation by which the best checkpoint is kept."""

DIGEST = '# Not written over once edited; as written it is '
"""Begins the last line of a config, before the digest of what stands above."""

CONFIG = """\
# Written by rebnn new-config from {folder}:
# {counts}.
_base_ = {base!r}

data_root = {root!r}
annotations = {annotations!r}
metainfo = dict(classes={classes!r})
scale = {scale!r}

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
{resized}
    dict(type='RandomFlip', {flips}),
{coloured}    dict(type='PackDetInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=scale, keep_ratio=True),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='PackDetInputs', meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor')),
]
images = dict(
    _delete_=True, type='CocoDataset', data_root=data_root, metainfo=metainfo, data_prefix=dict(img='')
)
train_dataloader = dict(
    dataset=dict(
        ann_file=annotations + 'train.json',
        filter_cfg=dict(filter_empty_gt={filtered}),
        pipeline=train_pipeline,
        **images,
    )
)
val_dataloader = dict(
    dataset=dict(ann_file=annotations + 'val.json', test_mode=True, pipeline=test_pipeline, **images)
)
test_dataloader = dict(
    dataset=dict(ann_file=annotations + {test!r}, test_mode=True, pipeline=test_pipeline, **images)
)
score = dict(_delete_=True, type='CocoMetric', metric='bbox')
val_evaluator = dict(ann_file=annotations + 'val.json', **score)
test_evaluator = dict(ann_file=annotations + {test!r}, **score)

model = dict({model})
{schedule}"""


RESIZED = "    dict(type='Resize', scale=scale, keep_ratio=True),"
PHOTOS = """\
    dict(type='RandomResize', scale=scale, ratio_range=(0.5, 2.0), keep_ratio=True),
    dict(type='RandomCrop', crop_size=(max(scale), max(scale)), allow_negative_crop={negatives}),
    dict(type='FilterAnnotations', min_gt_bbox_wh=(1, 1), keep_empty={emptied}),"""
"""Half to twice the size, cut to the network's input; images without a box pass where they are kept."""
COLOURED = "    dict(type='PhotoMetricDistortion'),\n"
ANY_WAY = "prob=[0.25, 0.25, 0.25], direction=['horizontal', 'vertical', 'diagonal']"
DONE = {'photos': 'varied size, crop and colour', 'microscope': 'flips in all directions', 'none': 'left-right flips'}


@report_errors
def main() -> None:
    configs = write_configs(parse_args())
    print('next:   ' + ' && '.join(f'rebnn train {shlex.quote(str(path))}' for path in configs))


def config_of(args: argparse.Namespace) -> Path:
    """The config that is asked for, or the one that is named after the folder."""
    return args.out or Path(f'{args.data.resolve().name}.py')


def write_configs(args: argparse.Namespace, patience: int = 0) -> list[Path]:
    """Write the config and, where it has one, that of its teacher, in the order of training; print what was found.

    ``patience`` validations without a better score stop training, whose best epoch then counts; 0 means neither.
    """
    out = config_of(args)
    if out.suffix != '.py':
        raise RebnnError(f'--out {out} must end in .py.')
    check_writable(out)
    bases, configs = {out: args.base}, {out: read_config(args.base)}
    if not configs[out].get('model'):
        raise RebnnError(f'{args.base} has no model; name the config of a detector.')
    teacher_base, teacher = configs[out].model.get('teacher'), out.with_name(f'{out.stem}_teacher.py')
    taught = isinstance(teacher_base, str)
    if taught:
        # Trained first, so written first.
        shipped = SCOPE + teacher_base.removeprefix('configs/')
        bases = {teacher: shipped if config_path(shipped).is_file() else teacher_base, **bases}
        check_writable(teacher)
        configs[teacher] = read_config(bases[teacher])
    if args.label_with:
        from rebnn_mm.cli.label_images import label_images

        print(label_images(args.data, args.label_with, args.classes))
    given = {split: path for split in SPLITS if (path := getattr(args, split)) is not None}
    data = read_annotated(args.data, given)
    scale = tuple(args.size) if args.size else input_size(data)
    augment = args.augment or ('photos' if of_photographs(data) else 'microscope')
    if args.teacher is None and taught and augment == 'microscope' and args.starts:
        # From the package's 1-bit start, a teacher brought nothing to images that are no photographs.
        args.base, args.starts = BASES['tiny'].format(''), {augment: BINARY_STARTS[args.starts[augment]]}
        bases, configs, taught = {out: args.base}, {out: read_config(args.base)}, False
    kept = dict(negatives=args.negatives, emptied=not args.negatives)
    sides = input_sides(data, scale)
    labels = [box.name for box in data.boxes('train')]
    known = (len(data.classes), sides, labels, max(scale))
    changes = {path: model_changes(config, *known) for path, config in configs.items()}
    models = {path: model for path, (model, _) in changes.items()}
    if not all((config.get('train_cfg') or {}).get('max_epochs') for config in configs.values()):
        raise RebnnError(f'{args.base} or the config of its teacher counts iterations; use configs that count epochs.')
    length = steps_of(configs[out], data, args.negatives)
    epochs = args.epochs or max(12, math.ceil(STEPS / length))
    first, begins, starts = next(iter(bases)), dict.fromkeys(bases, ''), []
    if start := args.start or args.starts.get(augment):
        begun = Config(dict(model=models[first]))
        begun.merge_from_dict(start_of(configs[first], bases[first], start))
        models[first] = begun.model.to_dict()
        starts.append(start)
        places = {first: begun.load_from} if 'load_from' in begun else {}
        if start in BINARY_STARTS and args.base == BASES['tiny'].format('_taught'):
            places[out] = BINARY_STARTS[start]
            starts.append(places[out])
        # The package's starts have seen photographs, so other images need the usual rate.
        slower = 'optim_wrapper' in begun and (args.start or augment == 'photos')
        rate = f'optim_wrapper = dict({_arguments(begun.optim_wrapper)})\n' if slower else ''
        begins |= {path: f'load_from = {place!r}\n{rate}' for path, place in places.items()}
    if taught:
        models[out] |= {
            'teacher': str(teacher.resolve()),
            'teacher_checkpoint': f'work_dirs/{teacher.stem}/{"best" if patience else f"epoch_{epochs}"}.pth',
        }
    annotations = f'{out.resolve().with_suffix("")}_'
    for path in (*bases, *(Path(f'{annotations}{split}.json') for split in data.splits)):
        if not written_here(path):
            raise RebnnError(f'{path} already exists and has been edited; choose another --out.')
    for split, photos in data.splits.items():
        with whole_file(f'{annotations}{split}.json') as part:
            part.write_text(json.dumps(as_coco(photos, data.classes)))
    counts = [f'{len(p)} images with {len(data.boxes(split))} boxes for {split}' for split, p in data.splits.items()]
    for path, base in bases.items():
        text = CONFIG.format(
            folder=clean_text(str(data.folder)),
            counts=', '.join(counts),
            base=base if '::' in base else str(Path(base).resolve()),
            root=f'{data.folder}/',
            annotations=annotations,
            classes=data.classes,
            scale=scale,
            filtered=not args.negatives,
            resized=PHOTOS.format(**kept) if augment == 'photos' else RESIZED,
            flips=ANY_WAY if augment == 'microscope' else 'prob=0.5',
            coloured=COLOURED if augment == 'photos' else '',
            test=f'{"test" if "test" in data.splits else "val"}.json',
            model=_arguments(models[path]),
            schedule=schedule(configs[path], epochs, length) + hooks(configs[path], patience) + begins[path],
        ).replace('{{', '{\\x7b')  # in a name; mmengine would put something in its place
        with whole_file(path) as part:
            part.write_text(f'{text}{DIGEST}{_digest(text)}\n')
    report(data, scale, sides, changes[out][1])
    print(augment_sentence(augment, data, asked=args.augment is not None))
    terms = ' (learned from photographs with non-commercial terms; --start none: random weights)'
    print(f'start: {" and ".join(starts) or "random weights"}{terms if args.starts and start else ""}')
    print('\n'.join(f'config: {path}' for path in bases))
    return list(bases)


def written_here(path: Path) -> bool:
    """Whether a file may be written over: there is none, or it is as an earlier call has left it."""
    if not path.is_file():
        return True
    text = path.read_text(encoding='utf-8', errors='replace')
    if path.suffix == '.json':
        return json.dumps(WRITTEN) in text
    above, _, digest = text.rpartition(DIGEST)
    return digest.strip() == _digest(above)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def start_of(base: Config, name: str, checkpoint: str) -> dict[str, Any]:
    """Options, by dotted key, that start a detector from another one of the same blocks, or from a classifier.

    A classifier fills the backbone, and the shared head of a C4 detector. A detector fills all but what predicts other
    classes, and is trained at a lower rate.
    """
    check_checkpoint_file(checkpoint)
    with user_errors(base):
        content = CheckpointLoader.load_checkpoint(checkpoint, map_location='cpu', logger='silent')
    state = content.get('state_dict', content)
    place = checkpoint if '://' in checkpoint else str(Path(checkpoint).expanduser().resolve())

    def compare(options: Any, learned: Mapping[str, Any]) -> tuple[int, list[str], list[str]]:
        with DefaultScope.overwrite_default_scope(base.get('default_scope', 'mmdet')):
            match = match_keys(MODELS.build(options), learned)
        missing = [key for key in match.missing if not QUANTIZER.match(key)]
        return len(match.matched), missing, [key for key in match.reshaped if not QUANTIZER.match(key)]

    rate = (base.get('optim_wrapper') or {}).get('optimizer', {}).get('lr')
    if rate and any(key.startswith(HEADS) for key in state):
        _, missing, reshaped = compare(base.model, state)
        if not missing and all('head.' in key for key in reshaped):
            return {'load_from': place, 'optim_wrapper.optimizer.lr': rate * DETECTOR_RATE}
    learned = {key.removeprefix('backbone.'): value for key, value in state.items() if key.startswith('backbone.')}
    changes: dict[str, Any] = {}
    shared = (base.model.get('roi_head') or {}).get('shared_head')
    for key, part in {'backbone': base.model.get('backbone'), 'roi_head.shared_head': shared}.items():
        if part is None:
            continue
        matched, missing, reshaped = compare(part, learned)
        if wrong := [*missing, *reshaped]:
            raise RebnnError(
                f'--start {checkpoint} does not fit the {key} of {name}: of {matched + len(wrong)} parameters it '
                f'lacks {len(wrong)}, for instance {wrong[0]}. Name a classifier or detector of the same blocks, or '
                'the --base that it was trained for.'
            )
        start = dict(type='Pretrained', checkpoint=place, prefix='backbone.')
        # A base may have None there, which mmengine joins with nothing.
        changes[f'model.{key}.init_cfg'] = dict(start, _delete_=True) if 'init_cfg' in part else start
    return changes


def input_size(data: Annotated) -> tuple[int, int]:
    """The smallest size of the network's input at which few objects are small; not beyond the images' own."""
    photos = data.splits['train']
    wide, high = (float(np.median([getattr(photo, side) for photo in photos])) for side in ('width', 'height'))
    for edge in EDGES:
        factor = min(edge / max(wide, high), 1.0)
        size = max(round(wide * factor), 32), max(round(high * factor), 32)
        if factor == 1 or np.quantile(input_sides(data, size).min(axis=1), 0.1) >= SMALLEST:
            break
    return size


def size_spread(data: Annotated) -> float:
    """The factor by which sizes of objects of one class differ, as shares of the image; 1 with one object a class."""
    sizes: dict[str, list[float]] = {}
    for photo in data.splits['train']:
        for box in photo.boxes:
            if not box.crowd:
                share = box.width * box.height / (photo.width * photo.height)
                sizes.setdefault(box.name, []).append(0.5 * math.log(share))
    spreads = [float(np.std(logs)) for logs in sizes.values() if len(logs) > 1]
    return math.exp(float(np.median(spreads))) if spreads else 1.0


def mixed_sizes(data: Annotated) -> bool:
    """Whether no size holds half of the images: they are of several cameras, or cut by hand."""
    sizes = Counter((photo.width, photo.height) for photo in data.splits['train'])
    return 2 * max(sizes.values()) < sizes.total()


def of_photographs(data: Annotated) -> bool:
    """Whether images look like photographs of a world with an up and a down."""
    return mixed_sizes(data) or size_spread(data) >= SPREAD


def augment_sentence(augment: str, data: Annotated, asked: bool) -> str:
    """Say which augmentation was chosen, and why."""
    done = f'augment: {augment}, {DONE[augment]}'
    if asked:
        return f'{done}, as asked for'
    spread = f'sizes of objects of one class differ by a factor of {size_spread(data):.1f}'
    if augment == 'photos':
        why, other = 'the images have many sizes' if mixed_sizes(data) else spread, 'microscope or none'
    else:
        why, other = f'most images have one size, and {spread}', 'none if they have an up and a down, or photos'
    return f'{done}: {why} (for other images, use --augment {other})'


def input_sides(data: Annotated, scale: tuple[int, int]) -> np.ndarray:
    """Widths and heights of the training boxes in the network's input, (K, 2)."""
    sides = []
    for photo in data.splits['train']:
        long, short = max(photo.width, photo.height), min(photo.width, photo.height)
        factor = min(max(scale) / long, min(scale) / short)
        sides += [(box.width * factor, box.height * factor) for box in photo.boxes if not box.crowd]
    return np.array(sides)


def model_changes(
    base: Config, classes: int, sides: np.ndarray, labels: list[str], edge: int
) -> tuple[dict[str, Any], tuple[Anchors, Anchors] | None]:
    """Adapt the model of a base to these data, and tell how its anchors, kept if no worse, and the new ones fit."""
    changes: dict[str, Any] = {}
    for owner in (base.model.get('roi_head') or {}, base.model):
        head = owner.get('bbox_head') or {}
        if isinstance(head, list):
            raise RebnnError('the base has several box heads; name one with a single box head as --base.')
        if 'num_classes' in head:
            own = {'bbox_head': dict(num_classes=classes)}
            changes |= own if owner is base.model else {'roi_head': own}
    if not changes:
        raise RebnnError('the base has no head with num_classes; name the config of a detector as --base.')
    images = base.model.get('data_preprocessor') or {}
    prepared: dict[str, Any] = {}
    if images.get('batch_augments'):
        prepared['batch_augments'] = None  # they would take other sizes than the scale
    # Maps of a pyramid are added, and batch norm needs two places at stride 32, in half the size as well.
    small = edge <= 64
    if images and base.model.get('neck') and (small or 'pad_size_divisor' not in images):
        prepared['pad_size_divisor'] = 64 if small else 32
    if prepared:
        changes['data_preprocessor'] = prepared
    for name in ('rpn_head', 'bbox_head'):
        head = base.model.get(name)
        found = describe_generator_change((head or {}).get('anchor_generator') or {}, sides, equal_classes(labels))
        if found is not None:
            options, old, new = found
            if new is not old:
                changes[name] = {**changes.get(name, {}), 'anchor_generator': options}
            return changes, (old, new)
    return changes, None


def steps_of(base: Config, data: Annotated, negatives: bool = True) -> int:
    """How many steps an epoch has, with the images without a box or without them."""
    images = sum(negatives or bool(photo.boxes) for photo in data.splits['train'])
    return math.ceil(images / base.train_dataloader.get('batch_size', 1))


def schedule(base: Config, epochs: int, length: int) -> str:
    """The lines that set the number of epochs, of so many steps each; a warm-up has a twentieth of them at most."""
    before = base.train_cfg.max_epochs
    given = base.get('param_scheduler') or ()
    steps = [dict(step) for step in ([given] if isinstance(given, dict) else given)]
    for step in steps:
        if not step.get('by_epoch', True):
            if not step.get('begin') and step.get('type') in WARM_UPS and 'end' in step:
                step['end'] = min(step['end'], max(1, epochs * length // 20))
            continue
        begin = min(round(step.get('begin', 0) * epochs / before), epochs - 1)
        if step.get('begin'):
            step['begin'] = begin
        for key, least in (('end', begin + 1), ('T_max', 1)):
            if isinstance(step.get(key), int):
                step[key] = max(least, round(step[key] * epochs / before))
        if 'milestones' in step:
            step['milestones'] = sorted({max(1, round(at * epochs / before)) for at in step['milestones']})
    interval = max(1, min(epochs // 6, base.train_cfg.get('val_interval', 1) * epochs // before))
    lines = [f'train_cfg = dict(max_epochs={epochs}, val_interval={interval})']
    lines += ['param_scheduler = [', *(f'    dict({_arguments(step)}),' for step in steps), ']']
    saving = max(1, min(interval, epochs // 25))  # what an interruption loses at most
    checkpoint = dict(interval=saving, max_keep_ckpts=2, save_best=MONITOR)
    lines += [f'default_hooks = dict(checkpoint=dict({_arguments(checkpoint)}))']
    return '\n'.join(lines) + '\n'


def hooks(base: Config, patience: int = 0) -> str:
    """The line without hooks for pipelines that are not the base's any more, and with early stopping, if any."""
    given = base.to_dict().get('custom_hooks') or []
    kept = [hook for hook in given if type_name(hook) not in SWITCHES]
    if patience:
        kept += [dict(type='EarlyStoppingHook', monitor=MONITOR, min_delta=0.0, patience=patience)]
    return '' if kept == given else f'custom_hooks = {kept!r}\n'


def report(
    data: Annotated, scale: tuple[int, int], sides: np.ndarray, anchors: tuple[Anchors, Anchors] | None
) -> None:
    """Print classes, sizes, anchors and notes."""
    console = plain_console(width=100)
    table = Table('class', *(f'boxes, {split}' for split in data.splits), 'median size in pixels')
    for name in data.classes:
        boxes = {split: [box for box in data.boxes(split) if box.name == name] for split in data.splits}
        size = [np.median([getattr(box, side) for box in boxes['train']] or [0]) for side in ('width', 'height')]
        table.add_row(name, *(str(len(found)) for found in boxes.values()), f'{size[0]:.0f} x {size[1]:.0f}')
    console.print(table)
    small = float(np.mean(sides.min(axis=1) < SMALLEST))
    console.print(
        f'network input: at most {scale[0]}x{scale[1]}; {100 * small:.0f} % of the boxes are narrower there than '
        f'{SMALLEST} pixels' + (', so a larger --size may find more' if small > 0.2 else '')
    )
    if anchors is None:
        console.print('anchors: none to choose in this base')
    else:
        console.print('boxes that some anchor overlaps by half or more, averaged over the classes:')
        for what, fit in zip(('of the base', 'chosen'), anchors, strict=True):
            scales, ratios = (', '.join(f'{value:g}' for value in values) for values in fit[:2])
            same = ' (the same)' if what == 'chosen' and anchors[0] is anchors[1] else ''
            console.print(f'  anchors {what}: {100 * fit.covered:.0f} %, scales {scales}; ratios {ratios}{same}')
    for note in data.notes:
        console.print(f'note: {note}', soft_wrap=True)


def _arguments(values: dict[str, Any]) -> str:
    """Keyword arguments as Python writes them."""
    return ', '.join(
        f'{key}=dict({_arguments(value)})' if isinstance(value, dict) else f'{key}={value!r}'
        for key, value in values.items()
    )
