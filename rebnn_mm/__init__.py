"""rebnn_mm: 1-bit detectors and classifiers for OpenMMLab, trained with the resilient gradient.

Importing the package registers its layers, backbones, data sets, hooks and constructors in mmengine's root registries;
it imports neither mmdet nor mmpretrain.
"""

from . import datasets, engine, layers, models, quantizers
from .version import __version__

__all__ = ['__version__', 'datasets', 'engine', 'layers', 'models', 'quantizers']
