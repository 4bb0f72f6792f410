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


WITHOUT_MMPRETRAIN = """
import sys
sys.modules['mmpretrain'] = None
from mmengine.registry import MODELS
import rebnn_mm
print(MODELS.get('rebnn_mm.BinaryRPNHead').__name__)
try:
    MODELS.get('rebnn_mm.TeacherStudentClassifier')
except ImportError as error:
    print(error)
"""


def test_missing_library_costs_only_what_builds_on_it():
    result = subprocess.run([sys.executable, '-c', WITHOUT_MMPRETRAIN], capture_output=True, text=True, check=True)
    found, message = result.stdout.strip().splitlines()[-2:]
    assert found == 'BinaryRPNHead'
    assert message.startswith('rebnn_mm.TeacherStudentClassifier is not registered. mmpretrain cannot be found')


def test_with_both_libraries_an_unknown_name_is_just_unknown():
    assert MODELS.get('NoSuchHead') is None
