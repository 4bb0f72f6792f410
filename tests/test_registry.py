import subprocess
import sys

from mmengine.registry import MODELS as ROOT_MODELS

from rebnn_mm.registry import BLOCKS, MODELS


def test_leaf_types_are_found_by_bare_name_from_every_scope():
    for name in ('ReBNNConv2d', 'ReBNNResNet', 'ReBNNResLayer'):
        assert ROOT_MODELS.get(name).__name__ == name


def test_child_registry_hangs_under_the_root():
    assert MODELS.parent is ROOT_MODELS
    assert ROOT_MODELS.children['rebnn_mm'] is MODELS


def test_blocks_know_their_short_names():
    assert BLOCKS.get('react') is BLOCKS.get('BinaryReActBlock')
    assert BLOCKS.get('bireal') is BLOCKS.get('BinaryBiRealBlock')
    assert BLOCKS.get('nothing') is None


def test_import_loads_neither_mmdet_nor_mmpretrain():
    code = "import sys, rebnn_mm; print([m for m in ('mmdet', 'mmpretrain') if m in sys.modules])"
    result = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == '[]'
