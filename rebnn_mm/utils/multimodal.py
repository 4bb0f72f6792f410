"""Lets mmpretrain and version 5 of transformers live in one environment."""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import ModuleType
from typing import Any

SWITCH = 'mmpretrain.utils.dependency'
"""The module of mmpretrain that says, when it is imported, whether multimodal models are imported, too."""


def leave_multimodal_out() -> bool:
    """Keep mmpretrain from importing its multimodal models where they cannot be imported.

    mmpretrain 1.3 imports them as soon as any transformers is installed, and with them names that transformers 5
    has not; then none of its models can be used. A config that names one gets mmpretrain's own message.
    """
    if not _too_new() or find_spec('mmpretrain') is None:
        return False
    if SWITCH in sys.modules:
        _turn_off(sys.modules[SWITCH])
    elif not any(isinstance(finder, _SwitchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SwitchFinder())
    return True


def _too_new() -> bool:
    try:
        return int(version('transformers').split('.')[0]) >= 5
    except PackageNotFoundError:
        return False


def _turn_off(module: Any) -> None:
    module.WITH_MULTIMODAL = False


class _SwitchFinder(MetaPathFinder):
    """Finds the one module as everybody else would, and has its switch turned off once it has run."""

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != SWITCH:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        loader: Any = spec.loader
        run = loader.exec_module

        def run_and_turn_off(module: ModuleType) -> None:
            run(module)
            _turn_off(module)

        loader.exec_module = run_and_turn_off
        return spec
