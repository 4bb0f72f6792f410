"""Without mmdet no model is a detector of mmdet."""

import subprocess
import sys
import textwrap


def test_is_answered_where_mmdet_is_not_installed():
    code = """
        import sys
        from importlib.abc import MetaPathFinder

        class WithoutMmdet(MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.split('.')[0] == 'mmdet':
                    raise ModuleNotFoundError(name)

        sys.meta_path.insert(0, WithoutMmdet())
        import importlib.util
        found = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == 'mmdet' else found(name, *rest)
        from torch import nn
        from rebnn_mm.export.detection.support import unsupported
        print(unsupported(nn.Conv2d(3, 8, 1)))
    """
    done = subprocess.run([sys.executable, '-c', textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == 'it is no detector of mmdet'
