"""Networks with values that are not those of a fresh start, for comparing exported graphs with PyTorch."""

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

METHODS = (
    *('ReBNN', 'BNN', 'XNOR', 'BiReal', 'RBNN', 'ReCU', 'ReAct', 'FDA', 'BiDet'),
    *('IRNet', 'ReSTE', 'OvSW', 'BiPer', 'SiMaN', 'BNext'),
)
"""Every method with one bit for weights and inputs in prediction."""

CENTRED = ('RBNN', 'SiMaN')
"""Methods that take the mean off each sample."""


def lively(model: nn.Module, seed: int = 0) -> nn.Module:
    """The model in eval mode, without gradients, with random norms, scales, shifts and slopes."""
    generator = torch.Generator().manual_seed(seed)

    def randomise(tensor: torch.Tensor | None, mean: float, deviation: float) -> None:
        if tensor is not None:
            tensor.data.copy_(mean + deviation * torch.randn(tensor.shape, generator=generator).clamp(-2, 2))

    for module in model.modules():
        if isinstance(module, _BatchNorm):
            randomise(module.running_mean, 0, 0.3)
            randomise(module.running_var, 1, 0.3)
            randomise(module.weight, 0.8, 0.5)  # some below zero
            randomise(module.bias, 0, 0.3)
        for name, mean in (('shift', 0.0), ('shift_in', 0.0), ('shift_out', 0.0), ('slope', 0.25), ('alpha', 0.1)):
            value = getattr(module, name, None)
            if isinstance(value, nn.Parameter):
                randomise(value, mean, 0.04 if name == 'alpha' else 0.2)
        if isinstance(module, nn.Conv2d | nn.Linear):
            weight = torch.randn(module.weight.shape, generator=generator)
            module.weight.data.copy_(weight * module.weight[0].numel() ** -0.5)
            randomise(module.bias, 0, 0.1)
    return model.eval().requires_grad_(False)


GEOMETRIES = {
    'plain': dict(kernel_size=3, padding=1),
    'strided': dict(kernel_size=3, padding=1, stride=2, bias=False),
    'uneven kernel': dict(kernel_size=(5, 3), padding=(2, 0)),
    'same': dict(kernel_size=(2, 4), padding='same'),
    'dilated': dict(kernel_size=3, padding=6, dilation=6),
    'groups': dict(kernel_size=3, padding=1, groups=3),
    'depthwise': dict(kernel_size=3, padding=1, groups=12, bias=False),
    'padded with +1': dict(kernel_size=3, padding=1, pad_value=1),
    'reflect': dict(kernel_size=3, padding=1, padding_mode='reflect'),
    'replicate': dict(kernel_size=3, padding=(0, 2), padding_mode='replicate'),
    'circular': dict(kernel_size=3, padding=1, padding_mode='circular'),
}


CONFIG = """
default_scope = 'mmpretrain'
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
data_preprocessor = dict(mean=[120, 110, 100], std=[60, 55, 50], to_rgb=True)
model = dict(
    type='ImageClassifier',
    backbone=dict(type='BinaryResNet', depth=18, base_channels=8, num_stages=1, strides=(1,), dilations=(1,),
                  out_indices=(0,), stem='cifar'),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(type='LinearClsHead', num_classes=2, in_channels=8))
pipeline = [dict(type='LoadImageFromFile'), dict(type='Resize', scale=(12, 16)), dict(type='PackInputs')]
test_dataloader = dict(dataset=dict(type='CustomDataset', pipeline=pipeline))
"""
"""A config whose network is the fixture ``classifier`` with two classes."""
