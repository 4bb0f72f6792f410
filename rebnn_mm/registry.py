"""The registries that rebnn_mm adds to mmengine's.

Every name is found in mmengine's *root* registries, so that a bare one in a config works from any OpenMMLab library,
and so does one with the scope (``'rebnn_mm.ReBNNHook'``). Two things need a registry of their own:

- :data:`MODELS`, for classes that build on mmdet, mmpretrain or transformers. They are imported when a config first
  names one (``type='BinaryRPNHead'``), so ``import rebnn_mm`` stays cheap, and a library that is missing or broken
  costs only what builds on it. Until then a function that builds the class has its name in the root registry.
- :data:`BLOCKS`, for residual block styles, so that a method can add one by adding a class.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

from mmengine import registry as root
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import Registry

from rebnn_mm.errors import RebnnError, did_you_mean

LIBRARY_PARTS = {
    'mmdet': (
        'rebnn_mm.models.detection',
        (
            *('BiDetBBoxHead', 'BiDetRPNHead', 'BiDetRoIHead', 'BiDetSSDHead', 'BinaryRPNHead', 'BinaryTowers'),
            *('FixedSSDHead', 'OneBitNeck', 'TeacherStudentDetector'),
        ),
    ),
    'mmpretrain': ('rebnn_mm.models.classification', ('TeacherStudentClassifier',)),
    'transformers': (
        'rebnn_mm.models.language',
        ('TaughtTextClassifier', 'TeacherStudentTextClassifier', 'TextClassifier'),
    ),
}
"""Packages of ours that build on a library, and the classes they register in :data:`MODELS`."""


class LibraryRegistry(Registry):
    """A registry that imports the package of a class when the class is asked for, and no other."""

    def get(self, key: str) -> type | None:
        """The class of that name, or None; an ImportError where the library that it builds on is missing or broken."""
        name = key.removeprefix(f'{self.scope}.')
        for library, (package, names) in LIBRARY_PARTS.items():
            if name not in names:
                continue
            if find_spec(library) is None:
                raise ImportError(
                    f'rebnn_mm.{name} builds on {library}, which cannot be found: install it (docs/install.md).'
                )
            import_module(package)
            for imported in names:
                ROOT_MODELS.register_module(imported, force=True, module=self.module_dict[imported])
        return super().get(key)


MODELS = LibraryRegistry('model', parent=ROOT_MODELS, scope='rebnn_mm', locations=['rebnn_mm'])


def _import_to_build(name: str) -> Callable[..., Any]:
    def build(*args: Any, **kwargs: Any) -> Any:
        cls = MODELS.get(name)
        assert cls is not None
        return cls(*args, **kwargs)

    build.__name__ = name
    return build


for _package, _names in LIBRARY_PARTS.values():
    for _name in _names:
        ROOT_MODELS.register_module(_name, module=_import_to_build(_name))

SCOPED = tuple(
    Registry(parent.name, parent=parent, scope='rebnn_mm', locations=['rebnn_mm'])
    for parent in (
        *(root.DATA_SAMPLERS, root.DATASETS, root.FUNCTIONS, root.HOOKS, root.METRICS),
        *(root.OPTIM_WRAPPER_CONSTRUCTORS, root.OPTIM_WRAPPERS, root.OPTIMIZERS, root.PARAM_SCHEDULERS),
        *(root.TASK_UTILS, root.TRANSFORMS),
    )
)
"""Empty: a name with the scope is looked up here and then, as they hold nothing, in the root registry above."""

BLOCKS = Registry('binary block', scope='rebnn_mm', locations=['rebnn_mm.models.blocks'])

_C = TypeVar('_C')


def find_class(kind: object, base: type[_C], problem: str) -> type[_C]:
    """Find the class, derived from ``base``, that the ``type`` of a config names; ``problem`` begins the error."""
    # The default scope may be that of another library, which finds our names but does not list them.
    with ROOT_MODELS.switch_scope_and_registry(None) as registry:
        cls = registry.get(kind) if isinstance(kind, str) else kind
    if isinstance(cls, type) and issubclass(cls, base):
        return cls
    names = list_classes(base)
    raise RebnnError(problem, fix=f'{did_you_mean(kind, names)} Registered: {", ".join(names)}'.lstrip())


def list_classes(base: type[_C]) -> dict[str, type[_C]]:
    """List the classes in the root registry that derive from ``base``, by their names."""
    found = sorted(ROOT_MODELS.module_dict.items())
    return {name: cls for name, cls in found if isinstance(cls, type) and issubclass(cls, base)}


def summary(cls: type) -> str:
    """Describe a class in one line: the first of its docstring."""
    return (cls.__doc__ or '').strip().partition('\n')[0]
