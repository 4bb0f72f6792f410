"""Preprocessing of a config's test pipeline, as the packed file states it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from mmengine.config import Config

from rebnn_mm.errors import RebnnError
from rebnn_mm.utils.data_files import leaf_datasets, type_name

IGNORED = ('LoadAnnotations', 'PackInputs', 'PackDetInputs', 'ToTensor', 'ImageToTensor', 'Collect')
"""Steps of a test pipeline that leave the image as it is."""


ORDER = ('resize', 'crop', 'letterbox')
"""Order of the steps that a pipeline may have."""


CIFAR_SIZE = (32, 32)
"""Width and height of CIFAR's images."""


class Preprocessing(NamedTuple):
    """The steps from an 8-bit image to the network's input."""

    steps: dict[str, Any]  # the object that docs/format.md calls ``rebnn.preprocess``
    notes: list[str]  # what the object cannot say, one sentence each


def read_preprocessing(cfg: Config) -> Preprocessing:
    """Read the steps from the test pipeline and the data preprocessor of a config."""
    found: dict[str, Any] = {}
    notes: list[str] = []
    pipeline = test_pipeline(cfg)
    # Files are read as BGR; data sets that hold their images, CIFAR's, give RGB.
    order = 'bgr' if any(type_name(step).startswith('LoadImage') for step in pipeline) else 'rgb'
    for step in pipeline:
        kind = type_name(step)
        if kind in IGNORED or kind.startswith('LoadImage'):
            continue
        for key, value in _describe_step(kind, step, notes).items():
            if key in found or any(later in found for later in ORDER[ORDER.index(key) :]):
                raise RebnnError(
                    f'the test pipeline has {kind} where the packed format has no place for it: it knows one resize, '
                    'then one crop, then one Pad. Shorten test_dataloader.dataset.pipeline for the export.'
                )
            found[key] = value
    if is_cifar(cfg) and not any(step in found for step in ORDER):
        # the network has seen no other size, which the data set says and no step
        found['resize'] = {'mode': 'exact', 'size': list(CIFAR_SIZE)}
    if not pipeline:
        notes.append('The config has no test pipeline: the file takes images of any size as they are, in RGB order.')
    found |= _normalisation(cfg, order)
    if 'letterbox' in found and found['channels'] != order:
        found['letterbox']['value'].reverse()
    return Preprocessing(found, notes)


def test_dataset(cfg: Config) -> Mapping[str, Any]:
    """The innermost data set that the config tests on, of several the first; empty if it has none."""
    split = next((name for name in ('test', 'val') if cfg.get(f'{name}_dataloader')), 'test')
    key = f'{split}_dataloader.dataset'
    given = (cfg.get(f'{split}_dataloader') or {}).get('dataset') or {}
    (_, first), *others = leaf_datasets(given, key)
    for name, other in others:
        if other.get('pipeline') != first.get('pipeline'):
            raise RebnnError(
                f'{name} prepares images differently from the first of {key}; a packed file does it in one way.'
            )
    return first


def is_cifar(cfg: Config) -> bool:
    """Whether the config tests on CIFAR, whose images are arrays of one size."""
    return type_name(test_dataset(cfg)).startswith('CIFAR')


def test_pipeline(cfg: Config) -> list[Mapping[str, Any]]:
    """The transforms of the config's test data set; empty if it has none."""
    return list(test_dataset(cfg).get('pipeline') or [])


def _describe_step(kind: str, step: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    """One transform in the format's words."""
    middle = kind in ('EfficientNetCenterCrop', 'TensorFlowCenterCrop')
    if middle or kind in ('Resize', 'FixScaleResize', 'ResizeEdge'):
        backend = step.get('backend', 'TensorFlow' if kind == 'TensorFlowCenterCrop' else 'cv2')
        interpolation = step.get('interpolation', 'bicubic' if middle else 'bilinear')
        if (backend, interpolation) != ('cv2', 'bilinear'):
            notes.append(
                f"The config resizes by {backend}'s {interpolation} interpolation, the packed file by OpenCV's "
                'bilinear: scores differ a little.'
            )
    if kind == 'ResizeEdge' and step.get('edge', 'short') == 'short':
        return {'resize': {'mode': 'short_edge', 'size': int(step['scale'])}}
    if kind in ('Resize', 'FixScaleResize') and step.get('scale') is not None:
        mode = 'keep_ratio' if step.get('keep_ratio', False) else 'exact'
        if (kind, mode) == ('FixScaleResize', 'keep_ratio'):
            notes.append('FixScaleResize rounds sizes down, the packed file to the nearest: a pixel more at times.')
        return {'resize': {'mode': mode, 'size': _pair(step['scale'])}}
    if middle:
        # A part of the image brought to a size is that part of the whole image brought to a size.
        side = int(step['crop_size'])
        edge = side + int(step.get('crop_padding', 32))
        return {'resize': {'mode': 'short_edge', 'size': edge}, 'crop': [side, side]}
    if kind == 'CenterCrop' and not step.get('auto_pad') and not step.get('efficientnet_style'):
        return {'crop': _pair(step['crop_size'])}
    if kind == 'Pad' and step.get('padding_mode', 'constant') == 'constant':
        return {'letterbox': _letterbox(step)}
    raise RebnnError(
        f'the test pipeline has {dict(step)}, which the packed format has no words for (docs/format.md). Use Resize, '
        'ResizeEdge, CenterCrop, TensorFlowCenterCrop and Pad with a constant in test_dataloader.dataset.pipeline.'
    )


def _letterbox(step: Mapping[str, Any]) -> dict[str, Any]:
    """``Pad`` in the format's words, its pixel in the order of the file."""
    value: Any = step.get('pad_val', 0)
    if isinstance(value, Mapping):
        value = value.get('img', 0)
    channels = [value] * 3 if isinstance(value, int | float) else list(value)
    found: dict[str, Any] = {'value': [round(channel) for channel in channels]}
    if step.get('pad_to_square'):
        found['square'] = True
    if step.get('size_divisor') is not None:
        found['divisor'] = int(step['size_divisor'])
    elif step.get('size') is not None:
        found['size'] = _pair(step['size'])
    return found


def _pair(size: Any) -> list[int]:
    return [int(size), int(size)] if isinstance(size, int) else [int(length) for length in size]


def _normalisation(cfg: Config, order: str) -> dict[str, Any]:
    """Order of channels, mean and deviation, and padding, of the data preprocessor."""
    given = cfg.get('model', {}).get('data_preprocessor') or cfg.get('data_preprocessor') or {}
    swaps = given.get('bgr_to_rgb') or given.get('rgb_to_bgr') or given.get('to_rgb')
    found: dict[str, Any] = {'channels': {'bgr': 'rgb', 'rgb': 'bgr'}[order] if swaps else order}
    if given.get('mean') is not None:
        found['mean'] = [float(value) for value in given['mean']]
        found['std'] = [float(value) for value in given['std']]
    divisor = int(given.get('pad_size_divisor', 1))
    if divisor > 1:
        found['pad'] = {'divisor': divisor, 'value': given.get('pad_value', 0)}
    return found
