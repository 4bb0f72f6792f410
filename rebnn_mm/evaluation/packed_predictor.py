"""A packed file in place of the trained model, so that a config's own test loop scores it."""

from __future__ import annotations

import copy
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from mmengine.dataset import BaseDataset
from mmengine.model import BaseModel
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement, InstanceData
from torch import Tensor

from rebnn_mm.deploy import Classifier, Detections, Detector, RawModel, TextClassifier
from rebnn_mm.deploy.loading import Loaded
from rebnn_mm.errors import RebnnError
from rebnn_mm.export.preprocess import read_preprocessing

RUNNER_KEYS = (
    'work_dir', 'test_cfg', 'test_evaluator', 'default_hooks', 'env_cfg', 'log_processor', 'log_level', 'visualizer',
    'default_scope', 'randomness', 'experiment_name',
)  # fmt: skip
"""Keys that testing takes from a config. Hooks of the training method have nothing to find in a packed file."""


class PackedPredictor(BaseModel):
    """Answers the test loop of mmengine with what a packed file finds; boxes are in pixels of the original image.

    An image goes into the file as the data set has it and is prepared as the file says, not by the config's pipeline.
    """

    def __init__(self, packed: Classifier | Detector | RawModel, dataset: Any) -> None:
        super().__init__()
        if isinstance(packed, RawModel):
            raise RebnnError(
                f'{packed.name} gives what its head gives ({", ".join(packed.outputs)}), neither labels nor boxes, so '
                'there is nothing to score.'
            )
        self.packed = packed
        self.dataset = dataset
        first = dataset[0]['data_samples']
        self._check_task(first)
        _check_classes(packed, dataset)
        self.image_of(first)

    def forward(
        self, inputs: Any, data_samples: Sequence[BaseDataElement], mode: str = 'predict'
    ) -> list[BaseDataElement]:
        """The data samples with their predictions, one after the other."""
        sample: Any
        for sample in data_samples:
            image = self.image_of(sample)
            if isinstance(self.packed, Detector):
                _set_boxes(sample, self.packed(image))
            else:
                scores = torch.from_numpy(self.packed.scores(image))
                sample.set_pred_score(scores).set_pred_label(scores.argmax(keepdim=True))
        return list(data_samples)

    def image_of(self, sample: Any) -> str | PathLike[str] | np.ndarray:
        """The image of a sample before any preparation: its file, or its array where the data set holds the images."""
        path = sample.metainfo.get('img_path')
        if path is not None:
            return path
        index = sample.metainfo.get('sample_idx')
        if index is not None and isinstance(self.dataset, BaseDataset):
            image = self.dataset.get_data_info(index).get('img')
            if image is not None:
                return image
        raise RebnnError(
            f'the samples of {type(self.dataset).__name__} say neither the path of their image nor their place in the '
            'data set. Let the last step of test_dataloader.dataset.pipeline keep img_path or sample_idx (meta_keys), '
            'without a wrapper around a data set that holds its images.'
        )

    def _check_task(self, sample: Any) -> None:
        kind = type(sample)
        wanted = 'set_pred_score' if isinstance(self.packed, Classifier) else 'pred_instances'
        if not hasattr(kind, wanted):
            gives = 'one label per image' if isinstance(self.packed, Classifier) else 'boxes'
            raise RebnnError(
                f'{self.packed.name} gives {gives}, and {type(self.dataset).__name__} has samples of {kind.__name__}, '
                f'which hold something else. {_advice(self.packed)}'
            )


def other_preparation(packed: Classifier | Detector, cfg: Config) -> str | None:
    """One sentence on how a file prepares images differently from a config's test pipeline, ``None`` if equally."""
    stated = json.loads(packed.session.get_modelmeta().custom_metadata_map['rebnn.preprocess'])
    try:
        steps = json.loads(json.dumps(read_preprocessing(cfg).steps))
    except ValueError as error:
        return f'{packed.name} prepares images in its own way, as on a board; {error}'
    differ = [
        f'{key} {stated.get(key, "absent")} instead of {steps.get(key, "absent")}'
        for key in sorted({*stated, *steps})
        if stated.get(key) != steps.get(key)
    ]
    if not differ:
        return None
    return f'{packed.name} prepares images differently from the config, and is scored that way: {"; ".join(differ)}.'


def _set_boxes(sample: Any, found: Detections) -> None:
    from mmdet.models.utils import samplelist_boxtype2tensor

    sample.pred_instances = InstanceData(
        bboxes=torch.from_numpy(found.boxes),
        scores=torch.from_numpy(found.scores),
        labels=torch.from_numpy(found.labels),
    )
    # metrics that read the annotations from the sample expect tensors; else mmdet's data preprocessor sees to it
    samplelist_boxtype2tensor([sample])


def _check_classes(packed: Classifier | Detector | TextClassifier, dataset: Any) -> None:
    known = tuple(dataset.metainfo.get('classes') or ())
    number: Any = len(packed.classes)
    if not number and isinstance(packed, Classifier):
        number = packed.session.get_outputs()[0].shape[-1]
    if not known or not isinstance(number, int) or not number:
        return
    if number != len(known):
        raise RebnnError(
            f'{packed.name} knows {number} classes{_some(packed.classes)}, the test data set '
            f'{len(known)}{_some(known)}. {_advice(packed)}'
        )
    for label, (name, other) in enumerate(zip(packed.classes, known, strict=False)):
        if name != other:
            raise RebnnError(
                f'in {packed.name} class {label} is {name!r}, in the test data set {other!r}, so labels would mean '
                f'something else. {_advice(packed)}'
            )


def _advice(packed: Loaded) -> str:
    config = f' ({packed.metadata.config})' if packed.metadata.config else ''
    return f'Use the config that the file was exported with{config}.'


def _some(names: Sequence[str]) -> str:
    if not names:
        return ''
    return f' ({", ".join(names[:3])}{", ..." if len(names) > 3 else ""})'


class PackedTextPredictor(BaseModel):
    """Answers the test loop of mmengine with the logits of a packed file, for the tokens of the test pipeline."""

    def __init__(self, packed: TextClassifier, dataset: Any) -> None:
        super().__init__()
        self.packed = packed
        if 'input_ids' not in (dataset[0].get('inputs') or {}):
            raise RebnnError(f'{packed.name} takes texts, and {type(dataset).__name__} holds none. {_advice(packed)}')
        _check_classes(packed, dataset)

    def forward(
        self, inputs: Mapping[str, Tensor], data_samples: Sequence[BaseDataElement], mode: str = 'predict'
    ) -> list[BaseDataElement]:
        """The data samples with ``pred_score``, their logits."""
        logits = self.packed.logits({name: value.numpy() for name, value in inputs.items()})
        for sample, scores in zip(data_samples, torch.from_numpy(logits), strict=True):
            sample.set_data(dict(pred_score=scores))
        return list(data_samples)


def build_runner(cfg: Config, packed: Loaded, runner: type[Runner] = Runner) -> Runner:
    """The config's test loop around a packed file."""
    init_default_scope(cfg.get('default_scope') or 'mmengine')
    cfg.test_dataloader.batch_size = 1
    with redirect_stdout(io.StringIO()):  # the COCO reader prints what it does
        loader = Runner.build_dataloader(cfg.test_dataloader)
    predictor: BaseModel
    if isinstance(packed, TextClassifier):
        predictor = PackedTextPredictor(packed, loader.dataset)
    else:
        predictor = PackedPredictor(packed, loader.dataset)
    kept = {key: cfg[key] for key in RUNNER_KEYS if cfg.get(key) is not None}
    return runner(predictor, test_dataloader=loader, cfg=cfg, **kept)


def score(cfg: Config, packed: Loaded) -> dict[str, float]:
    """Scores of a packed file on the test set of a config, which stays as it is; the evaluator prints nothing."""
    cfg = copy.deepcopy(cfg)
    cfg.pop('visualizer', None)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        # what writes into the folder is kept by the name of the experiment, beyond the folder's end
        cfg.work_dir, cfg.log_level, cfg.experiment_name = folder, 'ERROR', Path(folder).name
        scores = build_runner(cfg, packed).test()
    return {name: value for name, value in scores.items() if isinstance(value, float)}
