"""A packed text classifier in place of the trained model, so that a config's own test loop scores it."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mmengine.model import BaseModel
from mmengine.structures import BaseDataElement
from torch import Tensor

from rebnn_mm.deploy import TextClassifier


class PackedTextPredictor(BaseModel):
    """Answers the test loop of mmengine with the logits of a packed file.

    The tokens are those that the config's test pipeline makes.

    Args:
        packed: what :func:`rebnn_mm.deploy.load` gives for a text classifier.
        dataset: the test data set, built.

    Raises:
        ValueError: the data set holds no texts, or has other classes than the file.
    """

    def __init__(self, packed: TextClassifier, dataset: Any) -> None:
        super().__init__()
        self.packed = packed
        if 'input_ids' not in (dataset[0].get('inputs') or {}):
            config = f' ({packed.metadata.config})' if packed.metadata.config else ''
            raise ValueError(
                f'{packed.name} takes texts, and {type(dataset).__name__} holds none. Use the config that the file '
                f'was exported with{config}.'
            )
        known = tuple(dataset.metainfo.get('classes') or ())
        if known and packed.classes and known != packed.classes:
            raise ValueError(
                f'{packed.name} has the classes {", ".join(packed.classes)}, the test data set {", ".join(known)}. '
                'Use the config that the file was exported with.'
            )

    def forward(
        self, inputs: Mapping[str, Tensor], data_samples: Sequence[BaseDataElement], mode: str = 'predict'
    ) -> list[BaseDataElement]:
        """The data samples with ``pred_score``, their logits.

        Args:
            inputs: tokens of a batch, (B, N) each.
            data_samples: as the data set gives them.
            mode: ``'predict'``.

        Raises:
            ValueError: another mode.
            rebnn_mm.deploy.DeployError: the tokens do not suit the file.
        """
        if mode != 'predict':
            raise ValueError(f'a packed file predicts only, mode={mode!r} is unknown to it.')
        logits = self.packed.logits({name: value.numpy() for name, value in inputs.items()})
        for sample, scores in zip(data_samples, torch.from_numpy(logits), strict=True):
            sample.set_data(dict(pred_score=scores))
        return list(data_samples)
