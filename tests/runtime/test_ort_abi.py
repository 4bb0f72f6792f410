"""The hand-written declarations of ONNX Runtime's interface against a real header, where there is one."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.runtime.ort_header import PLACES

FOLDER = Path(__file__).parents[2] / 'runtime' / 'ort'


@pytest.fixture
def header() -> str:
    """``REBNN_ORT_HEADER`` or where the packages of Debian 13 and of ONNX Runtime put it."""
    for folder in [os.environ.get('REBNN_ORT_HEADER'), *PLACES]:
        if folder and Path(folder, 'onnxruntime_c_api.h').is_file():
            return folder
    pytest.skip(
        'no header of ONNX Runtime here; runtime/ort/tests/check_abi.sh fetches one, REBNN_ORT_HEADER names one'
    )


def check(folder: Path, header: str) -> subprocess.CompletedProcess:
    command = ['bash', str(folder / 'tests' / 'check_abi.sh'), header]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_declarations_agree_with_the_header(header):
    done = check(FOLDER, header)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith('ort_abi.h agrees with version ')


@pytest.mark.parametrize(
    ('old', 'new', 'error'),
    [
        (
            'F(91, KernelContext_GetOutput',
            'F(92, KernelContext_GetOutput',
            'KernelContext_GetOutput is at another place',
        ),
        ('size_t tasks, size_t batches, void* arg', 'size_t tasks, void* arg', 'ParallelFor is called otherwise'),
        ('const char* (*GetExecutionProviderType)(const CustomOp* op);', '', 'GetName|CreateKernel|GetInputType'),
        ('kUint8 = 2', 'kUint8 = 3', 'element types differ'),
    ],
)
def test_a_mistake_would_be_seen(header, tmp_path, old, new, error):
    folder = tmp_path / 'ort'
    shutil.copytree(FOLDER, folder)
    text = (folder / 'ort_abi.h').read_text(encoding='utf-8')
    assert old in text
    (folder / 'ort_abi.h').write_text(text.replace(old, new), encoding='utf-8')
    done = check(folder, header)
    assert done.returncode != 0
    assert re.search(error, done.stderr)
