"""rebnn_mm: 1-bit detectors and classifiers for OpenMMLab, trained with the resilient gradient.

Importing the package registers its layers, backbones, hooks and constructors in mmengine's root registries; it imports
neither mmdet nor mmpretrain.
"""

from . import engine, layers, models, quantizers
from .version import __version__

__all__ = ['__version__', 'engine', 'layers', 'models', 'quantizers']
