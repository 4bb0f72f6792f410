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


@needs_it()
@pytest.mark.parametrize('before', [pytest.param('import mmpretrain', marks=pytest.mark.slow), 'import transformers'])
def test_models_of_mmpretrain_import_beside_transformers_5(before):
    done = run(f'{before}\nimport rebnn_mm\nfrom mmpretrain.models import ImageClassifier, VisionTransformer')

    assert done.returncode == 0, done.stderr


@needs_it()
def test_multimodal_model_says_what_it_needs():
    done = run(
        'import rebnn_mm\nfrom mmpretrain.registry import MODELS\nimport mmpretrain.models\n'
        'MODELS.build(dict(type="BlipCaption"))'
    )

    assert 'requires extra multi-modal dependencies' in done.stderr


def test_old_transformers_is_left_alone(monkeypatch):
    monkeypatch.setattr('rebnn_mm.utils.multimodal.version', lambda name: '4.57.6')

    assert not leave_multimodal_out()
