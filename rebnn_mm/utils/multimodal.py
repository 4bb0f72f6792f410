"""Lets mmpretrain and version 5 of transformers live in one environment."""

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

SWITCH = 'mmpretrain.utils.dependency'
"""The module of mmpretrain that says, when it is imported, whether multimodal models are imported, too."""


def leave_multimodal_out() -> bool:
    """Keep mmpretrain from importing its multimodal models where they cannot be imported.

    mmpretrain 1.3 imports them as soon as any transformers is installed, and with them names that transformers 5
    has not; then none of its models can be used. A config that names one gets mmpretrain's own message.
    """
    try:
        too_new = int(version('transformers').split('.')[0]) >= 5
    except PackageNotFoundError:
        return False
    package = find_spec('mmpretrain')
    if not too_new or package is None or package.origin is None:
        return False
    module: Any = sys.modules.get(SWITCH)
    if module is None:
        # Alone, by its path: mmpretrain itself takes seconds to import, and not everybody needs it.
        spec: Any = spec_from_file_location(SWITCH, Path(package.origin).parent / 'utils' / 'dependency.py')
        module = sys.modules[SWITCH] = module_from_spec(spec)
        spec.loader.exec_module(module)
    module.WITH_MULTIMODAL = False
    return True
