"""The registries that rebnn_mm adds to mmengine's.

Layers, quantizers, backbones, losses, hooks and constructors register in mmengine's *root* registries, so that a bare
name in a config finds them from any OpenMMLab library. Two things need a registry of their own:

- :data:`MODELS`, for classes that build on mmdet, mmpretrain or transformers. They are imported when a config first
  names one with its scope (``type='rebnn_mm.BinaryRPNHead'``), so ``import rebnn_mm`` stays cheap and works without
  them.
- :data:`BLOCKS`, for residual block styles, so that a method can add one by adding a file.
"""

import difflib
from importlib.util import find_spec
from typing import TypeVar

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

_C = TypeVar('_C')


def registered_class(kind: object, base: type[_C], problem: str) -> type[_C]:
    """The class that the ``type`` of a config names, which must derive from ``base``.

    Args:
        kind: a registered name, or the class itself.
        base: what it has to be.
        problem: the sentence that an error begins with.

    Raises:
        ValueError: there is no such class; the message lists those that are registered.

    Example:
        >>> from rebnn_mm.layers import BinaryLayer
        >>> registered_class('ReBNNLinaer', BinaryLayer, "type='ReBNNLinaer' is no binary layer.")
        Traceback (most recent call last):
            ...
        ValueError: type='ReBNNLinaer' is no binary layer. Did you mean 'ReBNNLinear'? Registered: ...
    """
    # The default scope may be that of another library, which finds our names but does not list them.
    with ROOT_MODELS.switch_scope_and_registry(None) as registry:
        cls = registry.get(kind) if isinstance(kind, str) else kind
    if isinstance(cls, type) and issubclass(cls, base):
        return cls
    names = registered_names(base)
    close = difflib.get_close_matches(str(kind), names, n=1)
    hint = f'Did you mean {close[0]!r}? ' if close else ''
    raise ValueError(f'{problem} {hint}Registered: {", ".join(names)}')


def registered_names(base: type) -> list[str]:
    """The names of all classes in the root registry that derive from ``base``.

    Example:
        >>> from rebnn_mm.layers import BinaryLinear
        >>> 'ReBNNLinear' in registered_names(BinaryLinear)
        True
    """
    return list(registered_classes(base))


def registered_classes(base: type[_C]) -> dict[str, type[_C]]:
    """The classes in the root registry that derive from ``base``, by their names.

    Example:
        >>> from rebnn_mm.layers import BinaryLinear
        >>> registered_classes(BinaryLinear)['ReBNNLinear'].__name__
        'ReBNNLinear'
    """
    found = sorted(ROOT_MODELS.module_dict.items())
    return {name: cls for name, cls in found if isinstance(cls, type) and issubclass(cls, base)}


__all__ = [
    'BLOCKS',
    'MODELS',
    'PARTS_OF',
    'LibraryRegistry',
    'registered_class',
    'registered_classes',
    'registered_names',
]
