"""The registries that rebnn_mm adds to mmengine's.

Layers, quantizers, backbones, losses, hooks and constructors register in mmengine's *root* registries, so that a bare
name in a config finds them from any OpenMMLab library. Two things need a registry of their own:

- :data:`MODELS`, for classes that build on mmdet, mmpretrain or transformers. They are imported when a config first
  names one with its scope (``type='rebnn_mm.BinaryRPNHead'``), so ``import rebnn_mm`` stays cheap and works without
  them.
- :data:`BLOCKS`, for residual block styles, so that a method can add one by adding a file.
"""

from importlib.util import find_spec

from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import Registry

PARTS_OF = {
    'mmdet': 'rebnn_mm.models.detection',
    'mmpretrain': 'rebnn_mm.models.classification',
    'transformers': 'rebnn_mm.models.language',
}
"""Which of our modules builds on which library."""


class LibraryRegistry(Registry):
    """A registry that says which library is missing when a class is not there because of it."""

    def get(self, key: str) -> type | None:
        """The class of that name, or None.

        Raises:
            ImportError: there is none, but a library is missing that some classes build on.
        """
        found = super().get(key)
        missing = [library for library in PARTS_OF if find_spec(library) is None] if found is None else []
        if missing:
            raise ImportError(
                f'rebnn_mm.{key} is not registered. {" and ".join(missing)} cannot be found, so what builds on it was '
                'left out: install it (docs/install.md), or correct the name.'
            )
        return found


MODELS = LibraryRegistry('model', parent=ROOT_MODELS, scope='rebnn_mm', locations=['rebnn_mm.models.optional'])
BLOCKS = Registry('binary block', scope='rebnn_mm', locations=['rebnn_mm.models.blocks'])

__all__ = ['BLOCKS', 'MODELS', 'PARTS_OF', 'LibraryRegistry']
