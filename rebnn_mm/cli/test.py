"""Evaluate a checkpoint, with the flags of mmdet's tools/test.py, and print its scores as a table.

    rebnn test configs/coco/faster_rcnn_r18_rebnn_coco.py work_dirs/faster_rcnn_r18_rebnn_coco/epoch_12.pth

The log in the work dir has the rest.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from contextlib import ExitStack
from copy import deepcopy
from typing import Any

from mmengine.config import Config, ConfigDict
from mmengine.dist import is_main_process
from mmengine.registry import METRICS, RUNNERS
from mmengine.runner import Runner

from rebnn_mm.cli.checks.environment import require_environment
from rebnn_mm.cli.checks.labels import check_labels
from rebnn_mm.cli.checks.model import check_model
from rebnn_mm.cli.progress import QuietRunner, show_progress
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.checkpoint import check_checkpoint, check_checkpoint_file
from rebnn_mm.utils.command_line import (
    TESTING,
    add_common_arguments,
    check_predictions,
    config_file,
    import_scope,
    load_config,
)
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.data_files import check_data, leaf_datasets
from rebnn_mm.utils.encoders import check_encoders
from rebnn_mm.utils.score_table import print_scores


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('config', type=config_file, help='config file; mmdet and mmpretrain configs work alike')
    parser.add_argument('checkpoint', help='checkpoint file')
    parser.add_argument('--out', help='write the predictions to this pickle file')
    parser.add_argument('--show', action='store_true', help='show each painted image in a window')
    parser.add_argument('--show-dir', help='folder for painted images; for a detector, within <work dir>/<time>')
    parser.add_argument('--wait-time', type=float, default=2, help='seconds each image of --show stays')
    parser.add_argument('--tta', action='store_true', help='test-time augmentation; flips, if the config has no other')
    add_common_arguments(parser)
    return parser.parse_args()


def build_runner(cfg: Config, verbose: bool = False) -> Runner:
    """The runner of a config; one that a config brings itself logs as it likes."""
    if 'runner_type' in cfg:
        return RUNNERS.build(cfg)
    return (Runner if verbose else QuietRunner).from_cfg(cfg)


def enable_painting(cfg: Config, flag: str, **options: Any) -> None:
    """Turn on the config's visualization hook for a flag, with options that mmdet's and mmpretrain's have."""
    hook = (cfg.get('default_hooks') or {}).get('visualization')
    if hook is None:
        raise RebnnError(
            f'{flag} needs a hook that paints, and the config has none. Add it to default_hooks: '
            "visualization=dict(type='DetVisualizationHook'), or VisualizationHook for a classifier."
        )
    hook.update({'enable' if cfg.get('default_scope') == 'mmpretrain' else 'draw': True, **options})


def check_display() -> None:
    """Refuse to show images where no window can open, in which matplotlib would show nothing and say nothing."""
    if sys.platform == 'linux' and not (os.environ.get('DISPLAY') or os.environ.get('WAYLAND_DISPLAY')):
        raise RebnnError(
            'there is no display to --show images on (DISPLAY is not set)',
            fix='Write them to a folder with --show-dir.',
        )


def enable_tta(cfg: Config) -> None:
    """Wrap the model and the test pipeline of the config for test-time augmentation, by default with flips."""
    if cfg.get('default_scope') == 'mmpretrain':
        default_model: dict[str, Any] = dict(type='mmpretrain.AverageClsScoreTTA')
    else:
        default_model = dict(
            type='DetTTAModel', tta_cfg=dict(nms=dict(type='nms', iou_threshold=0.5), max_per_img=100)
        )
    if 'tta_pipeline' not in cfg:
        warnings.warn('The config has no tta_pipeline: images are tested as they are and flipped.', stacklevel=2)
    dataset: Any
    for _, dataset in leaf_datasets(cfg.test_dataloader.dataset, ''):
        *steps, pack = deepcopy(dataset.pipeline)
        if 'meta_keys' in pack:  # flipped boxes are flipped back by these two
            pack.meta_keys = (*pack.meta_keys, 'flip', 'flip_direction')
        flips = [dict(type='RandomFlip', prob=1.0), dict(type='RandomFlip', prob=0.0)]
        flipped = [*steps, dict(type='TestTimeAug', transforms=[flips, [pack]])]
        dataset.pipeline = cfg.get('tta_pipeline', flipped)
    cfg.model = ConfigDict(**cfg.get('tta_model', default_model), module=cfg.model)


@report_errors
def main() -> None:
    args = parse_args()
    check_predictions(args.out, inputs=[args.config, args.checkpoint])
    cfg = load_config(args, TESTING)
    cfg.load_from = args.checkpoint
    cfg.resume = False
    check_data(cfg, ['test'])
    check_encoders(cfg, ['test'])
    check_checkpoint_file(args.checkpoint)
    require_environment()
    import_scope(cfg)
    check_labels(cfg, ['test'])
    check_model(cfg)
    if args.show:
        check_display()
    if args.show or args.show_dir:
        folder = 'out_dir' if cfg.get('default_scope') == 'mmpretrain' else 'test_out_dir'
        options = {} if args.show_dir is None else {folder: args.show_dir}
        enable_painting(cfg, '--show and --show-dir', show=args.show, wait_time=args.wait_time, **options)
    if args.tta:
        enable_tta(cfg)

    with user_errors(cfg), ExitStack() as stack:
        runner = build_runner(cfg)
        stack.enter_context(show_progress(runner))
        check_checkpoint(getattr(runner.model, 'module', runner.model), args.checkpoint)
        if args.out is not None:
            # mmdet's own one also encodes masks.
            kind = 'mmdet.DumpDetResults' if cfg.get('default_scope') == 'mmdet' else 'DumpResults'
            runner.test_evaluator.metrics.append(METRICS.build(dict(type=kind, out_file_path=args.out)))
        scores: dict[str, Any] = runner.test()
    if is_main_process():
        print_scores(scores)
