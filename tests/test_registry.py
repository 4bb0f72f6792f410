import json
import subprocess
import sys

import pytest
from mmengine import registry
from mmengine.registry import MODELS as ROOT_MODELS
from mmengine.registry import OPTIM_WRAPPER_CONSTRUCTORS

from rebnn_mm.registry import BLOCKS, LIBRARY_PARTS, MODELS


def test_leaf_types_are_found_by_bare_name_from_every_scope():
    for name in ('ReBNNConv2d', 'BinaryResNet', 'BinaryResLayer'):
        assert ROOT_MODELS.get(name).__name__ == name


@pytest.mark.parametrize(
    ('old', 'name'),
    [
        ('ReBNNResNet', 'BinaryResNet'),
        ('ReBNNResLayer', 'BinaryResLayer'),
        ('TaughtTextClassifier', 'TeacherStudentTextClassifier'),
    ],
)
def test_classes_keep_their_old_names(old, name):
    found = MODELS.get(name)
    assert found.__name__ == name and found is MODELS.get(old)


def test_the_constructor_keeps_its_old_name():
    found = OPTIM_WRAPPER_CONSTRUCTORS.get('ReBNNOptimWrapperConstructor')
    assert found is OPTIM_WRAPPER_CONSTRUCTORS.get('BinaryOptimWrapperConstructor')


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


IN_A_FRESH_PROCESS = """
import json, sys
from mmengine.registry import MODELS, DefaultScope
import rebnn_mm
heavy = ('mmdet', 'mmpretrain', 'mmcv.ops', 'matplotlib.pyplot', 'tensorboard', 'onnx')
found = {'imported': [library for library in heavy if library in sys.modules]}

sys.path.insert(0, sys.argv[1])
name = 'TeacherStudentClassifier'
for state in ('broken', 'missing'):
    if state == 'missing':
        sys.modules['mmpretrain'] = None
    found[state] = []
    for find in (lambda: MODELS.get(f'rebnn_mm.{name}'), lambda: MODELS.build(dict(type=name))):
        try:
            find()
        except ImportError as error:
            found[state].append(str(error))
found['by scope'] = MODELS.get('rebnn_mm.BinaryRPNHead').__name__

sizes = dict(min_sizes=[30, 60], max_sizes=[60, 111], input_size=64)
anchors = dict(type='SSDAnchorGenerator', scale_major=False, strides=[8, 16], ratios=[[2], [2]], **sizes)
with DefaultScope.overwrite_default_scope('mmdet'):
    head = MODELS.build(dict(type='FixedSSDHead', num_classes=3, in_channels=(8, 8), anchor_generator=anchors))
found['by bare name'] = type(head) is MODELS.get('FixedSSDHead') is MODELS.get('rebnn_mm.FixedSSDHead')
print(json.dumps(found))
"""


@pytest.fixture(scope='module')
def found_in_a_fresh_process(tmp_path_factory):
    """What is found where mmpretrain is there but broken, and then where it is missing."""
    pytest.importorskip('mmdet')
    path = tmp_path_factory.mktemp('libraries')
    (path / 'mmpretrain').mkdir()
    (path / 'mmpretrain' / '__init__.py').write_text("raise ImportError('needs another mmcv')")
    command = [sys.executable, '-c', IN_A_FRESH_PROCESS, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def test_no_library_is_imported_before_it_is_needed(found_in_a_fresh_process):
    assert found_in_a_fresh_process['imported'] == []


def test_missing_or_broken_library_costs_only_what_builds_on_it(found_in_a_fresh_process):
    found = found_in_a_fresh_process
    assert found['by scope'] == 'BinaryRPNHead'
    assert found['broken'] == 2 * ['needs another mmcv']
    assert found['missing'] == 2 * [
        'rebnn_mm.TeacherStudentClassifier builds on mmpretrain, which cannot be found: install it (docs/install.md).'
    ]


def test_bare_name_imports_the_library_that_its_class_builds_on(found_in_a_fresh_process):
    assert found_in_a_fresh_process['by bare name']


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
