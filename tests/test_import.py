"""What `import rebnn_mm` costs and gives."""

import subprocess
import sys

import pytest


def test_export_file_comes_when_it_is_used():
    import rebnn_mm
    from rebnn_mm.export.exporter import export_file

    assert rebnn_mm.export_file is export_file and 'export_file' in rebnn_mm.__all__
    with pytest.raises(AttributeError, match="^module 'rebnn_mm' has no attribute 'export_files'"):
        _ = rebnn_mm.export_files


def test_import_needs_no_torchvision():
    blocked = "import sys; sys.modules['torchvision'] = None; import rebnn_mm"  # which makes its import fail
    subprocess.run([sys.executable, '-c', blocked], capture_output=True, text=True, check=True)


FUNCTIONAL = """
import importlib.util, sys
sys.modules['rebnn_mm'] = importlib.util.module_from_spec(importlib.util.find_spec('rebnn_mm'))  # without its content
import rebnn_mm.functional
print([name for name in sys.modules if name.split('.')[0] in ('mmengine', 'mmcv')])
"""


def test_functional_needs_pytorch_only():
    out = subprocess.run([sys.executable, '-c', FUNCTIONAL], capture_output=True, text=True, check=True).stdout
    assert out.strip().splitlines()[-1] == '[]'


@pytest.mark.parametrize('scope', ['mmengine', 'mmdet', 'mmpretrain'])
@pytest.mark.parametrize('name', ['ReBNNConv2d', 'ReBNNLinear', 'BinaryResNet', 'BinaryRSign'])
def test_names_resolve_from_every_scope(scope, name):
    from mmengine.registry import MODELS, DefaultScope

    import rebnn_mm  # noqa: F401

    with DefaultScope.overwrite_default_scope(scope), MODELS.switch_scope_and_registry(None) as registry:
        assert registry.get(name) is not None
