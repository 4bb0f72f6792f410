"""The examples in the docstrings of the package and of the laboratory give what they say."""

import doctest
import importlib
from pathlib import Path

import pytest
from mmengine.registry import DefaultScope

ROOT = Path(__file__).parents[1]
PACKAGES = (ROOT / 'rebnn_mm', *(ROOT / 'lab' / name for name in ('device', 'paper_costs', 'study', 'tools')))
FILES = sorted(
    path
    for package in PACKAGES
    for path in package.rglob('*.py')
    if '>>>' in path.read_text() and path.parent.name != 'board'
)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix('').parts
    return '.'.join(parts[:-1] if parts[-1] == '__init__' else parts)


@pytest.mark.parametrize('name', [module_name(path) for path in FILES])
def test_examples(name, monkeypatch):
    # As in a fresh interpreter, where nothing has set a default scope yet.
    monkeypatch.setattr(DefaultScope, '_instance_dict', {})
    result = doctest.testmod(
        importlib.import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    )
    assert result.attempted > 0, 'a docstring that holds >>> is not reachable from the module'
    assert result.failed == 0
