import subprocess
import sys

import pytest
from mmengine import registry
from mmengine.registry import MODELS as ROOT_MODELS

from rebnn_mm.registry import BLOCKS, LIBRARY_PARTS, MODELS


def test_leaf_types_are_found_by_bare_name_from_every_scope():
    for name in ('ReBNNConv2d', 'ReBNNResNet', 'ReBNNResLayer'):
        assert ROOT_MODELS.get(name).__name__ == name


def test_child_registry_hangs_under_the_root():
    assert MODELS.parent is ROOT_MODELS
    assert ROOT_MODELS.children['rebnn_mm'] is MODELS


LATER = [name for _, names in LIBRARY_PARTS.values() for name in names]
"""Names whose classes are imported when they are asked for."""


def own_names():
    """Every class of ours in a root registry of mmengine, but for those."""
    for name, root in vars(registry).items():
        if isinstance(root, registry.Registry) and root.scope == 'mmengine':
            for key, found in root.module_dict.items():
                if found.__module__.startswith('rebnn_mm.') and key not in LATER:
                    yield pytest.param(root, key, found, id=f'{name}-{key}')


@pytest.mark.parametrize(('root', 'name', 'found'), own_names())
def test_names_are_found_with_and_without_the_scope(root, name, found):
    assert root.get(name) is root.get(f'rebnn_mm.{name}') is found


def test_blocks_know_their_short_names():
    assert BLOCKS.get('react') is BLOCKS.get('BinaryReActBlock')
    assert BLOCKS.get('bireal') is BLOCKS.get('BinaryBiRealBlock')
    assert BLOCKS.get('nothing') is None


WITHOUT_MMPRETRAIN = """
import sys
if len(sys.argv) > 1:
    sys.path.insert(0, sys.argv[1])
else:
    sys.modules['mmpretrain'] = None
from mmengine.registry import MODELS
import rebnn_mm
print(MODELS.get('rebnn_mm.BinaryRPNHead').__name__)
name = 'TeacherStudentClassifier'
for find in (lambda: MODELS.get(f'rebnn_mm.{name}'), lambda: MODELS.build(dict(type=name))):
    try:
        find()
    except ImportError as error:
        print(error)
"""


def test_missing_library_costs_only_what_builds_on_it():
    result = subprocess.run([sys.executable, '-c', WITHOUT_MMPRETRAIN], capture_output=True, text=True, check=True)
    found, *messages = result.stdout.strip().splitlines()[-3:]
    assert found == 'BinaryRPNHead'
    assert messages == 2 * [
        'rebnn_mm.TeacherStudentClassifier builds on mmpretrain, which cannot be found: install it (docs/install.md).'
    ]


def test_broken_library_costs_only_what_builds_on_it(tmp_path):
    (tmp_path / 'mmpretrain').mkdir()
    (tmp_path / 'mmpretrain' / '__init__.py').write_text("raise ImportError('needs another mmcv')")
    command = [sys.executable, '-c', WITHOUT_MMPRETRAIN, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip().splitlines()[-3:] == ['BinaryRPNHead', *2 * ['needs another mmcv']]


def test_unknown_name_is_just_unknown():
    assert MODELS.get('NoSuchHead') is None


@pytest.mark.parametrize('library', LIBRARY_PARTS)
def test_every_class_of_a_part_is_listed(library):
    pytest.importorskip(library)
    package, names = LIBRARY_PARTS[library]
    assert all(MODELS.get(name).__module__.startswith(package) for name in names)
    found = [name for name, cls in MODELS.module_dict.items() if cls.__module__.startswith(package)]
    assert sorted(found) == sorted(names)
    assert all(ROOT_MODELS.get(name) is MODELS.get(name) is ROOT_MODELS.get(f'rebnn_mm.{name}') for name in names)


BY_BARE_NAME = """
import sys
from mmengine.registry import MODELS, DefaultScope
import rebnn_mm
print([library for library in ('mmdet', 'mmpretrain') if library in sys.modules])
sizes = dict(min_sizes=[30, 60], max_sizes=[60, 111], input_size=64)
anchors = dict(type='SSDAnchorGenerator', scale_major=False, strides=[8, 16], ratios=[[2], [2]], **sizes)
with DefaultScope.overwrite_default_scope('mmdet'):
    head = MODELS.build(dict(type='FixedSSDHead', num_classes=3, in_channels=(8, 8), anchor_generator=anchors))
print(type(head) is MODELS.get('FixedSSDHead') is MODELS.get('rebnn_mm.FixedSSDHead'))
"""


def test_bare_name_imports_the_library_that_its_class_builds_on():
    pytest.importorskip('mmdet')
    result = subprocess.run([sys.executable, '-c', BY_BARE_NAME], capture_output=True, text=True, check=True)
    assert result.stdout.strip().splitlines()[-2:] == ['[]', 'True']
