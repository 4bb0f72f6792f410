"""Small float64 networks whose losses can also be written in terms of their binarized weights."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from rebnn_mm.engine import ResilientGradient
from rebnn_mm.methods import ReBNNConv2d, ReBNNLinear

LR = 0.05
"""Signs flip within a few steps, and alpha stays positive by itself."""


class TwoLayers(nn.Module):
    """Convolution and linear layer; ``repeat`` calls the convolution several times with one weight."""

    def __init__(self, repeat=1, with_cp=False, **options):
        super().__init__()
        self.conv = ReBNNConv2d(4, 4, 3, padding=1, bias=False, activation=None, **options)
        self.linear = ReBNNLinear(4, 3, bias=False, activation='BinarySign', **options)
        self.repeat, self.with_cp = repeat, with_cp
        generator = torch.Generator().manual_seed(3)
        for layer in (self.conv, self.linear):
            # Many values close to 0, which flip soon, and some beyond 1, where the mask of Eq. 5 matters.
            layer.weight.data = torch.randn(layer.weight.shape, generator=generator) ** 3 / 2
        self.double()

    def _features(self, x):
        for _ in range(self.repeat):
            x = torch.tanh(self.conv(x))
        return x

    def forward(self, x):
        x = checkpoint(self._features, x, use_reentrant=False) if self.with_cp else self._features(x)
        return self.linear(x.mean(dim=(2, 3)))

    def loss(self, batch):
        x, target = batch
        return F.mse_loss(self(x), target)

    @property
    def layers(self):
        return [self.conv, self.linear]


def written_out_loss(repeat=1):
    """The loss of :class:`TwoLayers` as a function of its binarized weights."""

    def loss(w_hat, batch):
        x, target = batch
        for _ in range(repeat):
            x = torch.tanh(F.conv2d(x, w_hat[0], padding=1))
        x = x.mean(dim=(2, 3))
        return F.mse_loss(
            F.linear(torch.where(x < 0, -1.0, 1.0).double() + (x - x.detach()) * (x.abs() <= 1), w_hat[1]), target
        )

    return loss


def batches(count, size=8, seed=0):
    """Batches of images and targets."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(size, 4, 5, 5, generator=generator, dtype=torch.float64),
            torch.randn(size, 3, generator=generator, dtype=torch.float64),
        )
        for _ in range(count)
    ]


def state(model):
    """Everything that training changes."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def train(model, data, optimizer=None, resilient=None, micro=1, scaler=None):
    """Steps on batches, each in ``micro`` parts whose gradients add up; the resilient gradient that drives them."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=LR)
    resilient = resilient or ResilientGradient(model).attach(optimizer)
    for x, target in data:
        for part in zip(x.chunk(micro), target.chunk(micro), strict=True):
            loss = model.loss(part) / micro
            (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
            scaler.update()
        optimizer.zero_grad()
    return resilient
