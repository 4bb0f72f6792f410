"""Imports the parts that build on mmdet, on mmpretrain and on transformers, each if its library is installed.

The one location of :data:`rebnn_mm.registry.MODELS`, which would import all of several.
"""

from importlib import import_module
from importlib.util import find_spec

from rebnn_mm.registry import PARTS_OF

for library, parts in PARTS_OF.items():
    if find_spec(library) is not None:
        import_module(parts)
