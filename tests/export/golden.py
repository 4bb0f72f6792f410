"""The model of the golden file: ``python -m tests.export.golden`` writes the file again."""

from pathlib import Path

import torch
from torch import nn

from rebnn_mm.export.exporter import Export, export, write
from tests.export.conftest import PREPROCESS, tiny_classifier

PATH = Path(__file__).parent / 'data' / 'golden.onnx'
CHANNELS_FIRST = PATH.with_name('golden_nchw.onnx')
"""What was written before binary convolutions had the channels last; such files stay readable."""


def golden_classifier() -> nn.Module:
    """A classifier whose values follow from their position, not from a random number generator."""
    model = tiny_classifier()
    for number, (name, value) in enumerate([*model.named_parameters(), *model.named_buffers()]):
        if value.is_floating_point():
            wave = torch.sin(torch.arange(value.numel(), dtype=torch.float64) * 1.7 + number).view(value.shape)
            positive = name.endswith(('running_var', 'alpha', 'slope'))
            value.data.copy_(0.5 + 0.25 * wave if positive else 0.5 * wave)
    return model.eval()


def golden_export() -> Export:
    """The export of the golden classifier."""
    return export(golden_classifier(), preprocess=PREPROCESS, config='golden.py', classes=list('abcde'), size=(16, 12))


if __name__ == '__main__':
    write(golden_export().data, PATH)
