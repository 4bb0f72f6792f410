"""Whether a stock config of mmdet or mmpretrain can become binary, train, be exported and run, and how fast."""

from __future__ import annotations

import copy
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.hub import get_config
from mmengine.registry import DefaultScope
from mmengine.runner import Runner
from torch import Tensor, nn
from torch.utils.data import DataLoader

from rebnn_mm.analysis.config_network import build_network
from rebnn_mm.benchmark.networks import fill_norms_of_length, randomise_weights
from rebnn_mm.benchmark.timing import noise_feeds, open_timed, ratio_of
from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.export.exporter import export
from rebnn_mm.export.tasks import task_of
from rebnn_mm.models.binary_plan import example_image, plan_binary

LAYERS: dict[str, Any] = dict(conv=dict(type='ReBNNConv2d'), linear=dict(type='ReBNNLinear'))

BLOCK = 5
"""Runs of one file before it is the other's turn."""

SECONDS = 12
"""How long the two files of a model are timed, as far as five blocks are not quicker."""

STOCK = {
    'mmpretrain::resnet/resnet18_8xb32_in1k': 224,
    'mmdet::retinanet/retinanet_r18_fpn_1x_coco': 320,
    'mmpretrain::resnet/resnet50_8xb32_in1k': 224,
    'mmdet::faster_rcnn/faster-rcnn_r50_fpn_1x_coco': 320,
    'mmpretrain::mobilenet_v2/mobilenet-v2_8xb32_in1k': 224,
    'mmdet::rtmdet/rtmdet_tiny_8xb32-300e_coco': 320,
    'mmpretrain::mobilenet_v3/mobilenet-v3-small_8xb128_in1k': 224,
    'mmdet::yolox/yolox_tiny_8xb8-300e_coco': 320,
    'mmpretrain::efficientnet/efficientnet-b0_8xb32_in1k': 224,
    'mmdet::ssd/ssd300_coco': 300,
    'mmpretrain::shufflenet_v2/shufflenet-v2-1x_16xb64_in1k': 224,
    'mmdet::ssd/ssdlite_mobilenetv2-scratch_8xb24-600e_coco': 320,
    'mmdet::yolo/yolov3_mobilenetv2_8xb24-320-300e_coco': 320,
    'mmpretrain::densenet/densenet121_4xb256_in1k': 224,
    'mmdet::centernet/centernet_r18_8xb16-crop512-140e_coco': 320,
    'mmpretrain::resnext/resnext50-32x4d_8xb32_in1k': 224,
    'mmdet::atss/atss_r50_fpn_1x_coco': 320,
    'mmpretrain::seresnet/seresnet50_8xb32_in1k': 224,
    'mmdet::fcos/fcos_r18_fpn_gn-head-center-normbbox-centeronreg-giou_8xb8-amp-lsj-200e_coco': 320,
    'mmpretrain::regnet/regnetx-400mf_8xb128_in1k': 224,
    'mmpretrain::repvgg/repvgg-A0_8xb32_in1k': 224,
    'mmpretrain::convnext/convnext-tiny_32xb128_in1k': 224,
    'mmpretrain::swin_transformer/swin-tiny_16xb64_in1k': 224,
    'mmpretrain::vgg/vgg11bn_8xb32_in1k': 224,
    'mmdet::gfl/gfl_r50_fpn_1x_coco': 320,
    'mmdet::tood/tood_r50_fpn_1x_coco': 320,
    'mmdet::cascade_rcnn/cascade-rcnn_r50_fpn_1x_coco': 320,
    'mmdet::mask_rcnn/mask-rcnn_r50_fpn_1x_coco': 320,
    'mmpretrain::vision_transformer/vit-base-p16_64xb64_in1k': 224,
    'mmdet::detr/detr_r50_8xb2-150e_coco': 320,
}
"""Thirty well-known configs in the order in which they are tried, and the height and width of their images."""

Row = dict[str, Any]
"""What is found out of a model; a step that fails has its reason, in one sentence, and the next ones are left out."""


Step = Callable[[Config, Config, int, Path], Row]


def stock_config(name: str, size: int) -> tuple[Config, Config]:
    """A stock config and the same made binary as a whole.

    Args:
        name: with its scope, without ``.py``.
        size: height and width of an image.
    """
    real = get_config(f'{name}.py')
    if real.model.get('bbox_head', {}).get('type') == 'SSDHead':
        real.model.bbox_head.type = 'rebnn_mm.FixedSSDHead'  # mmdet's cannot predict
    return real, binary_config(real, size)


def binary_config(real: Config, size: int) -> Config:
    """A config whose model is made binary by ReBNN's layers, hook and constructor."""
    cfg = copy.deepcopy(real)
    cfg.model.update(type='rebnn_mm.Binarized', real=real.model.type, image_size=(size, size), **LAYERS)
    cfg.custom_hooks = [dict(type='ReBNNHook')]
    cfg.optim_wrapper.constructor = 'BinaryOptimWrapperConstructor'
    return cfg


def check_model(
    real: Config,
    cfg: Config,
    size: int,
    progress: Callable[[str], None] = lambda step: None,
    steps: Sequence[Step] | None = None,
) -> Row:
    """Try a model: swap, train a step, export and time.

    Args:
        real: its config.
        cfg: the same made binary.
        size: height and width of an image.
        progress: called with what begins.
        steps: None for :func:`swap`, :func:`train`, :func:`ship`.
    """
    row: Row = {'size': size}
    with DefaultScope.overwrite_default_scope(real.get('default_scope')), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for step in steps or (swap, train, ship):
            progress(step.__name__)
            try:
                with _quick(step is train):
                    row |= step(real, cfg, size, folder)
            except Exception as error:  # whatever a model of another library raises is its row's answer
                row[f'no_{step.__name__}'] = f'{type(error).__name__}: {first_sentence(error, 160)}'
                if step is swap:
                    break
    return row


def swap(real: Config, cfg: Config, size: int, _: Path) -> Row:
    """Choose the layers that become binary."""
    torch.manual_seed(0)
    model = build_network(real)
    plan = plan_binary(model, **LAYERS, example=example_image(model, (size, size)))
    weights = {row.name: torch.Size(row.shape).numel() for row in plan}
    binary = [row.name for row in plan if not row.real_because]
    share = sum(weights[name] for name in binary) / sum(weights.values())
    return {
        'layers': len(plan),
        'binary': len(binary),
        'share': round(100 * share, 1),
        'starving': sum(row.starves for row in plan),
    }


def step_runner(cfg: Config, samples: Sequence[Any], folder: Path, optim_wrapper: Any = None) -> Runner:
    """Build a runner of one iteration on samples, by the config's optimizer if none is given, from torch's start."""
    runner = Runner(
        model=copy.deepcopy(cfg.model),
        data_preprocessor=cfg.get('data_preprocessor'),
        work_dir=str(folder),
        train_dataloader=DataLoader(samples, batch_size=len(samples), collate_fn=pseudo_collate),  # type: ignore[arg-type]
        train_cfg=dict(by_epoch=False, max_iters=1, val_interval=100),
        optim_wrapper=optim_wrapper or cfg.optim_wrapper,
        custom_hooks=cfg.custom_hooks,
        default_hooks=dict(checkpoint=None),
        default_scope=cfg.default_scope,
        experiment_name=folder.name,
        log_level='ERROR',
        randomness=dict(seed=0),
    )
    # weights of an ImageNet training are not fetched for one step
    runner._init_model_weights = lambda: None
    fill_norms_of_length(runner.model)
    return runner


def train(real: Config, cfg: Config, size: int, folder: Path) -> Row:
    """One iteration on two images of noise, by the config's own optimizer."""
    detects, masks = real.get('default_scope') == 'mmdet', 'mask_head' in str(real.model)
    samples = detector_samples(size, masks) if detects else classifier_samples(size)
    runner = step_runner(cfg, samples, folder, _single_precision(cfg.optim_wrapper))
    before = {name: value.clone() for name, value in runner.model.named_parameters() if value.requires_grad}
    start = time.process_time()
    runner.train()
    seconds = time.process_time() - start
    after = dict(runner.model.named_parameters())
    if not all(bool(value.isfinite().all()) for value in after.values()):
        raise ValueError('a weight is not finite after the step')
    if all(torch.equal(value, after[name]) for name, value in before.items()):
        raise ValueError('the step has moved no weight')
    return {'train_seconds': round(seconds, 1)}


def ship(real: Config, cfg: Config, size: int, folder: Path) -> Row:
    """Export both, compare with PyTorch where scores do not nearly tie, and let the two files take turns."""
    paths: dict[str, Path] = {}
    row: Row = {}
    for kind, config in (('packed', cfg), ('fp32', real)):
        torch.manual_seed(0)
        model = keep_anchors(randomise_weights(build_network(config)))
        task = task_of(model)
        # detections of random weights nearly tie, so that none need be the same in PyTorch
        options: dict[str, Any] = {} if task.name == 'classification' else dict(watch=lambda images: ())
        data = export(model, size=(size, size), **options).data
        paths[kind] = folder / f'{kind}.onnx'
        paths[kind].write_bytes(data)
        row[f'{kind}_mb'] = round(len(data) / 1e6, 2)
        if kind == 'packed':
            row |= {'task': task.name, 'because': task.because}
    return row | time_files(paths['fp32'], paths['packed'], size)


def keep_anchors(model: nn.Module) -> nn.Module:
    """Let a proposal head give its anchors as they are, so that both files of a detector pass on equally many regions.

    Of boxes that random weights move, one file may pass on none and the other a thousand.
    """
    if isinstance(moves := getattr(getattr(model, 'rpn_head', None), 'rpn_reg', None), nn.Conv2d):
        nn.init.zeros_(moves.weight)
        nn.init.zeros_(cast(Tensor, moves.bias))
    return model


def time_files(fp32: Path, packed: Path, size: int) -> Row:
    """Medians of processor time and their ratio, with the ratios that one block in ten stays below and exceeds.

    A run has one thread, so that its processor time is how long it takes where nothing else runs. It is that thread's:
    under a limit of processor time (``RLIMIT_CPU``) Linux counts the process's in ticks of 4 ms.
    """
    sessions = [open_timed(path, kind, threads=1) for path, kind in ((fp32, False), (packed, True))]
    feeds = [noise_feeds(session, (size, size)) for session in sessions]
    times: list[list[float]] = [[], []]
    start = time.process_time()
    while len(times[0]) < 5 * BLOCK and (len(times[0]) < 2 * BLOCK or time.process_time() - start < SECONDS):
        for session, feed, found in zip(sessions, feeds, times, strict=True):
            session.run(None, feed)  # what the other left in the caches is no part of it
            for _ in range(BLOCK):
                began = time.thread_time()
                session.run(None, feed)
                found.append(1000 * (time.thread_time() - began))
    ratio = ratio_of(times[0], times[1], BLOCK)
    medians = [sorted(found)[len(found) // 2] for found in times]
    return {
        'fp32_ms': round(medians[0], 2),
        'packed_ms': round(medians[1], 2),
        'ratio': [round(value, 2) for value in ratio],
        'runs': len(times[0]),
    }


def detector_samples(size: int, masks: bool = False) -> list[dict[str, Any]]:
    """Two images of noise with three boxes each, and masks if wanted, as a detector's data loader gives them."""
    from mmdet.structures import DetDataSample
    from mmdet.structures.mask import BitmapMasks
    from mmengine.structures import InstanceData

    boxes = size * torch.tensor([[0.1, 0.1, 0.6, 0.6], [0.3, 0.2, 0.9, 0.7], [0.7, 0.1, 0.95, 0.4]])
    bits = torch.zeros(3, size, size, dtype=torch.uint8)
    for mask, (x1, y1, x2, y2) in zip(bits, boxes.int().tolist(), strict=True):
        mask[y1:y2, x1:x2] = 1
    samples = []
    for number in range(2):
        shape = dict(img_shape=(size, size), ori_shape=(size, size), pad_shape=(size, size), scale_factor=(1.0, 1.0))
        sample = DetDataSample(metainfo=dict(img_id=number, batch_input_shape=(size, size), **shape))
        sample.gt_instances = InstanceData(bboxes=boxes.clone(), labels=torch.tensor([0, 1, 2]))
        if masks:
            sample.gt_instances.masks = BitmapMasks(bits.numpy(), size, size)
        sample.ignored_instances = InstanceData(bboxes=torch.zeros(0, 4), labels=torch.zeros(0, dtype=torch.long))
        samples.append(dict(inputs=_noise(size, number), data_samples=sample))
    return samples


def classifier_samples(size: int) -> list[dict[str, Any]]:
    """Two images of noise with their labels, as a classifier's data loader gives them."""
    from mmpretrain.structures import DataSample

    return [dict(inputs=_noise(size, number), data_samples=DataSample().set_gt_label(number)) for number in range(2)]


def markdown(rows: Mapping[str, Row], names: Sequence[str]) -> list[str]:
    r"""The table, a line for each model that was tried, and a sentence on those that were not.

    Example:
        >>> row = dict(size=224, layers=20, binary=16, share=93.9, train_seconds=1.2, task='classification',
        ...            fp32_ms=30.0, packed_ms=10.0, ratio=[3.0, 2.9, 3.1], fp32_mb=46.8, packed_mb=4.3)
        >>> print('\n'.join(markdown({'mmpretrain::resnet/resnet18': row}, ['mmpretrain::resnet/resnet18'])[2:]))
        | resnet18, 224 | 16 of 20, 93.9 % | yes | yes | 46.8 → 4.3 | 30.0 → 10.0 | **3.00x** (2.90 to 3.10) |
    """
    lines = ['| model, image | binary layers, of the weights | trains a step | exports | MB | ms | speed |']
    lines.append('|---|---|---|---|---|---|---|')
    lines += [_line(name, rows[name]) for name in names if name in rows]
    missing = [name.rpartition('/')[2] for name in names if name not in rows]
    return [*lines, *(['', f'Not tried yet: {", ".join(missing)}.'] if missing else [])]


def _line(name: str, row: Row) -> str:
    cells = [f'{name.rpartition("/")[2]}, {row["size"]}']
    if 'layers' in row:
        cells.append(f'{row["binary"]} of {row["layers"]}, {row["share"]} %')
    else:
        cells.append(row.get('no_swap') or row.get('stopped', ''))
    cells.append('yes' if 'train_seconds' in row else _why(row, 'train'))
    if 'task' in row:
        cells.append('yes' if row['task'] != 'raw' else f'maps of its head only: {row["because"]}')
        low, high = (f'{value:.2f}' for value in row['ratio'][1:])
        speed = f'{row["ratio"][0]:.2f}x'
        cells.append(f'{row["fp32_mb"]:.3g} → {row["packed_mb"]:.3g}')
        cells.append(f'{row["fp32_ms"]:.1f} → {row["packed_ms"]:.1f}')
        cells.append(f'{f"**{speed}**" if row["ratio"][1] > 1 else speed} ({low} to {high})')
    else:
        cells += [_why(row, 'ship'), '', '', '']
    return '| ' + ' | '.join(cell.replace('|', '\\|') for cell in cells) + ' |'


def _why(row: Row, step: str) -> str:
    reason = row.get(f'no_{step}', '')
    return f'no: {reason}' if reason else ''


def versions() -> dict[str, str]:
    """List the versions of what ran, apart from our own."""
    import mmdet
    import mmpretrain
    import onnxruntime

    found = {'torch': torch.__version__, 'mmdet': mmdet.__version__, 'mmpretrain': mmpretrain.__version__}
    return {'python': platform.python_version(), **found, 'onnxruntime': onnxruntime.__version__}


def _noise(size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (3, size, size), dtype=torch.uint8, generator=generator)


def _single_precision(wrapper: Mapping[str, Any]) -> dict[str, Any]:
    """A wrapper without the loss scale of half precision, which a CPU does not need."""
    plain = dict(wrapper, type='OptimWrapper')
    return {key: value for key, value in plain.items() if key not in ('loss_scale', 'dtype')}


@contextmanager
def _quick(training: bool) -> Iterator[None]:
    """Gradients where they are needed only."""
    with torch.set_grad_enabled(training):
        yield
