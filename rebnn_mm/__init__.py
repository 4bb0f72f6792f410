"""rebnn_mm: 1-bit detectors and classifiers for OpenMMLab, trained with the resilient gradient.

Importing the package registers its layers, backbones, data sets, hooks and constructors in mmengine's root registries;
it imports neither mmdet nor mmpretrain, and the exporter only once :func:`export_file` is used. Where there is no
torch, on a board that only runs packed models, nothing is registered and :mod:`rebnn_mm.deploy` works alone.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .version import __version__

if find_spec('torch') is not None:
    from . import datasets, engine, evaluation, layers, methods, models, quantizers
    from .models import binarize, plan_binary, plan_table
    from .utils.config_scope import add_config_scope
    from .utils.multimodal import leave_multimodal_out

    if TYPE_CHECKING:
        from .export.exporter import export_file

    def __getattr__(name: str) -> Any:
        if name == 'export_file':
            from .export.exporter import export_file

            return export_file
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')

    leave_multimodal_out()
    add_config_scope()

    __all__ = [
        '__version__',
        'binarize',
        'datasets',
        'engine',
        'evaluation',
        'export_file',
        'layers',
        'methods',
        'models',
        'plan_binary',
        'plan_table',
        'quantizers',
    ]
else:
    __all__ = ['__version__']
