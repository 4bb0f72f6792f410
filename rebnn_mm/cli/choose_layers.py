"""Find the parts of a trained 1-bit network that deserve more than one bit: what each gains and costs.

rebnn choose-layers configs/bccd/faster_rcnn_r18_rebnn_bccd.py epoch_24.pth --ms 10

Each part in turn gets full precision; everything else stays 1-bit. The network trains for some more epochs, is packed,
scored on the config's validation set and timed, with the part in fp32 and in int8. For comparison the unchanged
network trains as long. Finished steps are kept in --work-dir; after an interruption the same command continues.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from mmengine.registry import MODELS
from mmengine.runner import Runner
from mmengine.runner.checkpoint import load_checkpoint
from rich.console import Console
from torch import nn

from rebnn_mm.analysis.bit_worth import Worth, keep_real, markdown, parts_of, proposal, with_real_weights
from rebnn_mm.cli.checks.environment import require_environment
from rebnn_mm.cli.checks.labels import check_labels
from rebnn_mm.cli.choose import METRICS, circumstances, conditions, metric_of, percent, time_files, write
from rebnn_mm.deploy import load
from rebnn_mm.deploy.run import positive
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.evaluation.packed_predictor import score
from rebnn_mm.export.exporter import export
from rebnn_mm.export.exporter import write as write_whole
from rebnn_mm.export.options import Options
from rebnn_mm.export.source import load_source
from rebnn_mm.utils.checkpoint import check_checkpoint, latest_checkpoint
from rebnn_mm.utils.command_line import TRAINING, add_common_arguments, config_file, import_scope, load_config
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.console import plain_console
from rebnn_mm.utils.data_files import check_data

NOTHING = 'nothing'
"""The part of the network that the others are compared with."""

PRECISIONS = ('fp32', 'int8')


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('config', type=config_file, help='config of the 1-bit network')
    parser.add_argument('checkpoint', help='its trained weights')
    parser.add_argument('--epochs', type=positive, default=1, help='more epochs for each part; default: %(default)s')
    parser.add_argument(
        '--lr-mult',
        type=float,
        default=0.1,
        help="factor of the config's learning rate, which then falls linearly to 0; default: %(default)s",
    )
    parser.add_argument('--each-layer', action='store_true', help='single layers instead of stages and towers')
    parser.add_argument('--metric', help=f'key of the score; default: {" or ".join(METRICS)}')
    parser.add_argument('--ms', type=float, help='propose parts that together add at most this many milliseconds')
    parser.add_argument('--megabytes', type=float, help='and at most this many megabytes')
    parser.add_argument('--precision', choices=PRECISIONS, default='int8', help='of these parts; default: %(default)s')
    parser.add_argument('--threads', type=positive, default=1, help='while timing; default: %(default)s')
    parser.add_argument('--rounds', type=positive, default=5, help='runs of each image; default: %(default)s')
    add_common_arguments(parser)
    return parser.parse_args()


@report_errors
def main() -> None:
    args = parse_args()
    warnings.simplefilter('ignore')
    cfg = load_config(args, (*TRAINING, 'val_dataloader', 'val_evaluator'))
    cfg.work_dir = f'{cfg.work_dir}/choose_layers' if args.work_dir is None else cfg.work_dir
    check_data(cfg, ['train', 'val'])
    args.checkpoint = os.path.expanduser(args.checkpoint)
    if not os.path.isfile(args.checkpoint):
        raise RebnnError(f'no checkpoint at {args.checkpoint}. Name a file, no URL.')
    require_environment()
    check_labels(cfg, ['train', 'val'])
    import_scope(cfg)
    console = plain_console(stderr=True, soft_wrap=True)
    with user_errors(cfg):
        report = compare(cfg, args, console)
    worths = [Worth(**entry) for entry in report['parts']]
    print('\n'.join(markdown(worths, METRICS.get(report['metric'], report['metric']))))
    print(f'\nWith nothing real: {report["score"]:.1f}. {conditions(report)}', flush=True)
    chosen = proposal(worths, args.precision, ms=args.ms, megabytes=args.megabytes)
    print(propose_parts(chosen, args, report['layers'], cfg))


def compare(cfg: Config, args: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Everything about every part, as JSON holds it."""
    model = MODELS.build(cfg.model)
    check_checkpoint(model, args.checkpoint)
    load_checkpoint(model, args.checkpoint, map_location='cpu', logger='silent')
    parts = parts_of(model, args.each_layer)
    if not parts:
        raise RebnnError(f'{args.config} has no binary layers, so there is nothing to choose.')
    folder = Path(cfg.work_dir)
    _same_settings(folder, cfg, args)
    validation = copy.deepcopy(cfg)
    validation.update(test_dataloader=cfg.val_dataloader, test_evaluator=cfg.val_evaluator, test_cfg={})
    metric = ''
    files: dict[str, Path] = {}
    scores: dict[str, dict[str, float]] = {}
    for number, (part, names) in enumerate({NOTHING: [], **parts}.items()):
        console.print(f'... {part} real, network {number + 1} of {len(parts) + 1}')
        own = folder / part
        planned = plan(cfg, args, own, model, names)
        checkpoint = train_part(planned, own)
        for precision, path in pack_part(checkpoint, own).items():
            files[f'{part}, {precision}'] = path
        scores[part] = score_part(validation, own)
        metric = metric or metric_of(scores, args.metric)
    console.print(f'... timing {len(files)} files in turns')
    times = time_files(validation, files, args)
    sizes = {label: path.stat().st_size / 1e6 for label, path in files.items()}

    def more(values: dict[str, float], part: str) -> dict[str, float]:
        return {kind: round(values[f'{part}, {kind}'] - values[f'{NOTHING}, {kind}'], 3) for kind in PRECISIONS}

    # mmdet gives a detector that finds nothing no score.
    nothing = scores[NOTHING].get(metric, 0.0)
    worths = [
        Worth(
            part,
            len(names),
            sum(model.get_submodule(name).weight.numel() for name in names),
            round(percent(metric, scores[part].get(metric, 0.0) - nothing), 2),
            more(times, part),
            more(sizes, part),
        )
        for part, names in parts.items()
    ]
    report = {
        'metric': metric,
        'score': round(percent(metric, nothing), 2),
        **circumstances(args),
        'parts': [worth._asdict() for worth in worths],
        'layers': parts,
    }
    write(folder / 'parts.json', report)
    return report


def _same_settings(folder: Path, cfg: Config, args: argparse.Namespace) -> None:
    """Note what the networks depend on, and refuse a folder whose networks were made otherwise."""
    path = folder / 'settings.json'
    given = {key: str(vars(args)[key]) for key in ('epochs', 'lr_mult', 'cfg_options')}
    settings = {key: value for key, value in cfg.items() if key != 'work_dir'}
    contents = {'config': repr(settings).encode(), 'checkpoint': Path(args.checkpoint).read_bytes()}
    for key, content in contents.items():
        given[key] = f'{vars(args)[key]} (SHA-256 {hashlib.sha256(content).hexdigest()[:12]})'
    before = json.loads(path.read_text()) if path.is_file() else given
    other = next((key for key in given if given[key] != before.get(key)), None)
    if other is not None:
        raise RebnnError(
            f'{folder} holds networks made with {other} {before.get(other)}, not {given[other]}: name another '
            '--work-dir.'
        )
    write(path, given)


def plan(cfg: Config, args: argparse.Namespace, folder: Path, model: nn.Module, names: list[str]) -> Config:
    """The config of a network in which these layers are real, written into a folder of its own."""
    planned = copy.deepcopy(cfg)
    if names:
        keep_real(planned, names)
        again = [name for layers in parts_of(MODELS.build(planned.model), True).values() for name in layers]
        stubborn = next((name for name in names if name in again), None)
        if stubborn is not None:
            raise RebnnError(f'{stubborn} is binary without a conv_cfg: write one into that part of the model.')
    loop = planned.train_cfg
    if 'max_epochs' not in loop:
        raise RebnnError(f'{args.config} is trained for iterations; only epochs can be counted here.')
    if 'lr' not in planned.optim_wrapper.get('optimizer', ()):
        raise RebnnError('it sets no lr, which --lr-mult multiplies.', 'optim_wrapper.optimizer', 'Set one there.')
    folder.mkdir(parents=True, exist_ok=True)
    start = folder / 'start.pth'
    state = torch.load(args.checkpoint, map_location='cpu', weights_only=False)
    torch.save({'state_dict': with_real_weights(state.get('state_dict', state), model, names)}, start)
    loop.update(max_epochs=args.epochs, val_begin=args.epochs + 1)
    planned.optim_wrapper.optimizer.lr *= args.lr_mult
    # Networks of other seeds would differ by more than their parts.
    randomness = dict(planned.get('randomness') or {})
    planned.randomness = {**randomness, 'seed': randomness.get('seed') or 0}
    planned.param_scheduler = [
        dict(type='LinearLR', start_factor=1.0, end_factor=0.0, end=args.epochs, convert_to_iter_based=True)
    ]
    checkpoints = dict(type='CheckpointHook', interval=1, max_keep_ckpts=1)
    planned.default_hooks = {**(planned.get('default_hooks') or {}), 'checkpoint': checkpoints}
    planned.work_dir, planned.load_from = str(folder), str(start)
    planned.dump(folder / 'planned.py')
    return planned


def train_part(planned: Config, folder: Path) -> Path:
    """Train and return the last checkpoint; what is finished is not repeated, and what was stopped goes on."""
    last = folder / f'epoch_{planned.train_cfg.max_epochs}.pth'
    # A file that is there may be half of one; mmengine names the last that is whole.
    whole = latest_checkpoint(folder)
    if whole is None or Path(whole).name != last.name:
        planned = copy.deepcopy(planned)
        if whole is not None:
            planned.resume, planned.load_from = True, whole
        Runner.from_cfg(planned).train()
    return last


def pack_part(checkpoint: Path, folder: Path) -> dict[str, Path]:
    """Packed files with real layers in fp32 and in int8."""
    files = {kind: folder / f'{kind}.onnx' for kind in PRECISIONS}
    if not all(path.is_file() for path in files.values()):
        source = load_source(str(folder / 'planned.py'), str(checkpoint), calibration=[])
        found = export(
            source.model,
            Options(int8='all'),
            preprocess=source.preprocess,
            config=source.config,
            classes=source.classes,
            calibration=source.calibration,
            size=source.size,
        )
        assert found.int8 is not None
        for path, data in zip(files.values(), (found.int8.before, found.data), strict=True):
            write_whole(data, path)
    return files


def score_part(cfg: Config, folder: Path) -> dict[str, float]:
    """Scores of the file in fp32 on the test set of the config."""
    path = folder / 'scores.json'
    if not path.is_file():
        write(path, score(cfg, load(folder / f'{PRECISIONS[0]}.onnx')))
    return json.loads(path.read_text())


def propose_parts(chosen: list[Worth], args: argparse.Namespace, layers: dict[str, list[str]], cfg: Config) -> str:
    """Propose what to write into the config."""
    limits = {'ms': args.ms, 'MB': args.megabytes}
    allowed = ' and '.join(f'{limit:g} {unit}' for unit, limit in limits.items() if limit is not None)
    within = f'for at most {allowed} more' if allowed else 'at any cost'
    if not chosen:
        return f'Proposed {within}: nothing becomes real; no part gains a point that can be paid for.'
    parts = ', '.join(worth.part for worth in chosen)
    gain = sum(worth.gain for worth in chosen)
    lists = keep_real(copy.deepcopy(cfg), [name for worth in chosen for name in layers[worth.part]])
    return (
        f'Proposed {within}: {parts} real, in {args.precision}; +{gain:.1f} if gains add up, which a training has to '
        f'show. Next to type={" and ".join(f"{kind!r}: keep_real={kept}" for kind, kept in lists.items())}'
    )
