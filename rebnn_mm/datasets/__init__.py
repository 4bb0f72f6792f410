"""Data sets that OpenMMLab's libraries read only in part or in another form."""

from .cifar10_archive import CIFAR10Archive

__all__ = ['CIFAR10Archive']
