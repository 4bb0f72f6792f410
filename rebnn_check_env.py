"""The command ``rebnn-check-env``.

It stands outside the package and loads the check by path: ``import rebnn_mm`` needs torch and mmengine, and fails on
just those machines on which something is wrong with them.
"""

import importlib.util
import runpy
from pathlib import Path


def main() -> None:
    """Run ``rebnn_mm/cli/checks/environment.py`` as a program, without importing ``rebnn_mm``."""
    package = importlib.util.find_spec('rebnn_mm')
    if package is None or package.origin is None:
        raise SystemExit('rebnn-check-env: rebnn_mm is not installed in this Python. Run: pip install -e .')
    runpy.run_path(str(Path(package.origin).parent / 'cli' / 'checks' / 'environment.py'), run_name='__main__')
