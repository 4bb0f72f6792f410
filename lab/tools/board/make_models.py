"""Write the networks that lab/tools/board/check_aarch64.sh counts, with random weights: ReBNN and real ResNet-18s.

python lab/tools/board/make_models.py FOLDER

The packed ones are that of configs/imagenet/resnet18_rebnn_two_stage_imagenet.py, exact and as ``rebnn export --fast``
writes it, also with ``--half-stem`` and with ``--int8 --int8-layers all``, calibrated on noise; the real one is
torchvision's ResNet-18.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope
from torch import nn
from torchvision.models import resnet18

import rebnn_mm
from rebnn_mm.benchmark.files import PREPROCESS
from rebnn_mm.export.examples import noise
from rebnn_mm.export.exporter import export, write
from rebnn_mm.export.options import Options

CONFIG = Path(rebnn_mm.__file__).parents[1] / 'configs' / 'imagenet/resnet18_rebnn_two_stage_imagenet.py'
SIZE = (224, 224)

PACKED = {
    'resnet18_packed.onnx': Options(),
    'resnet18_packed_fast.onnx': Options(fast=True),
    'resnet18_packed_half_stem.onnx': Options(fast=True, half_stem=True),
    'resnet18_packed_int8.onnx': Options(fast=True, int8='all'),
}
"""Options of the exporter by the name of the file."""


def randomise(model: nn.Module) -> nn.Module:
    """The model in eval mode, its norms and shifts off their starting values, so that nothing is skipped."""
    generator = torch.Generator().manual_seed(0)
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.dim() == 1 and tensor.is_floating_point():
            noise = 0.2 * torch.rand(tensor.shape, generator=generator)
            tensor.data.add_(noise if 'var' in name or 'weight' in name else noise - 0.1)
    return model.eval()


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter('ignore')
    init_default_scope('mmpretrain')
    torch.manual_seed(0)
    packed = randomise(MODELS.build(Config.fromfile(CONFIG).model))
    for name, options in PACKED.items():
        calibration = noise(PREPROCESS, SIZE) if options.int8 else ()
        exported = export(packed, options, config=CONFIG.name, size=SIZE, calibration=calibration)
        write(exported.data, folder / name)
    program = torch.onnx.export(
        randomise(resnet18()), (torch.zeros(1, 3, *SIZE),), dynamo=True, opset_version=18, verbose=False
    )
    assert program is not None
    program.save(folder / 'resnet18_real.onnx')


if __name__ == '__main__':
    main()
