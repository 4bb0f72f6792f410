"""A network with a layer of every kind that there is a rule for when it is made binary."""

import torch
from mmcv.cnn import ConvModule
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

CONV, LINEAR = dict(type='ReBNNConv2d'), dict(type='ReBNNLinear')
IMAGE = torch.zeros(1, 3, 8, 8)


class Network(nn.Module):
    """Stem, one layer of every kind that there is a rule for, and a head."""

    def __init__(self):
        super().__init__()
        self.stem = ConvModule(3, 8, 3, padding=1, norm_cfg=dict(type='BN'))
        self.hidden = ConvModule(8, 8, 3, padding=1, norm_cfg=dict(type='BN'))
        self.short = nn.Conv2d(8, 8, 1)
        self.depthwise = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.point = nn.Conv2d(8, 8, 1)
        self.up = nn.ConvTranspose2d(8, 8, 2)
        self.normed = weight_norm(nn.Conv2d(8, 8, 1))
        self.spare = nn.Conv2d(8, 8, 1)
        self.fc = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        x = self.stem(x)
        x = (self.hidden(x) + self.short(x)).tanh()
        x = self.point(self.depthwise(x).tanh()).tanh()
        x = self.normed(self.up(x).tanh()).tanh()
        return self.head(self.fc(x.mean((2, 3))).tanh())
