import subprocess
import sys

import pytest

from rebnn_mm.utils.multimodal import leave_multimodal_out


def run(code):
    return subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=False)


def needs_it():
    return pytest.mark.skipif(
        not leave_multimodal_out(), reason='transformers 5 and mmpretrain are not both installed'
    )


IMPORTS = 'import rebnn_mm\nfrom mmpretrain.models import ImageClassifier, VisionTransformer\nprint("imported")'


@pytest.fixture(scope='module')
def done():
    """A process that imports models of mmpretrain after transformers, and builds a multimodal one."""
    return run(
        f'import transformers\n{IMPORTS}\nfrom mmpretrain.registry import MODELS\n'
        'MODELS.build(dict(type="BlipCaption"))'
    )


@pytest.mark.slow
@needs_it()
def test_models_of_mmpretrain_import_beside_transformers_5(done):
    assert 'imported' in done.stdout, done.stderr


@needs_it()
@pytest.mark.slow
def test_models_of_mmpretrain_import_before_transformers_5():
    done = run(f'import mmpretrain\n{IMPORTS}')
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@needs_it()
def test_multimodal_model_says_what_it_needs(done):
    assert 'requires extra multi-modal dependencies' in done.stderr


def test_old_transformers_is_left_alone(monkeypatch):
    monkeypatch.setattr('rebnn_mm.utils.multimodal.version', lambda name: '4.57.6')

    assert not leave_multimodal_out()
