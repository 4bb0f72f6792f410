"""The registries that rebnn_mm adds to mmengine's.

Layers, quantizers, backbones, hooks and constructors register in mmengine's *root* registries, so that a bare name in
a config finds them from any OpenMMLab library. Two things need a registry of their own:

- :data:`MODELS`, for classes that build on mmdet. They are imported when a config first names one with its scope
  (``type='rebnn_mm.BinaryRPNHead'``), so ``import rebnn_mm`` stays cheap and works without mmdet.
- :data:`BLOCKS`, for residual block styles, so that a method can add one by adding a file.
"""

from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import Registry

MODELS = Registry('model', parent=ROOT_MODELS, scope='rebnn_mm', locations=['rebnn_mm.models.detection'])
BLOCKS = Registry('binary block', scope='rebnn_mm', locations=['rebnn_mm.models.blocks'])

__all__ = ['BLOCKS', 'MODELS']
