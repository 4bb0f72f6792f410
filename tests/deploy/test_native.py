"""Finding the compiled operators, and saying how to get them."""

import struct
import subprocess
import sys

import onnxruntime
import pytest

from rebnn_mm import native_library
from rebnn_mm.deploy import native
from tests.scripts import run_code


def test_library_of_the_set_up_is_found_and_accepted():
    assert native.library_path() == native_library.LIBRARY_FOLDER / 'librebnn_ort.so'
    assert native.register(onnxruntime.SessionOptions()) == native.library_path()


STAYS = """
import onnxruntime
from rebnn_mm.deploy import native
from tests.scripts import run_code

path = native.register(onnxruntime.SessionOptions())
assert str(path.resolve()) in open('/proc/self/maps').read()
"""


@pytest.mark.skipif(sys.platform != 'linux', reason='Linux lists what is loaded')
def test_the_library_stays_loaded_when_the_options_are_gone():
    done = run_code(STAYS)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ('place', 'torch', 'fix'),
    [
        ('clone', True, 'run `make setup`'),
        ('clone', False, 'run `bash tools/build_board_wheel.sh`, and install the wheel that it writes'),
        ('site', True, 'install rebnn_mm again where there is a C++ compiler, without REBNN_SKIP_RUNTIME'),
    ],
)
def test_missing_library(place, torch, fix, monkeypatch, tmp_path):
    monkeypatch.setattr(native_library, 'LIBRARY_FOLDER', tmp_path)
    monkeypatch.setattr(native, '__file__', str(tmp_path / place / 'rebnn_mm' / 'deploy' / 'native.py'))
    (tmp_path / 'clone').mkdir()
    (tmp_path / 'clone' / 'setup.py').touch()
    if not torch:
        monkeypatch.setattr(native, 'find_spec', {}.get)
    with pytest.raises(native.LibraryError) as caught:
        native.register(onnxruntime.SessionOptions())
    path = tmp_path / 'librebnn_ort.so'
    assert str(caught.value) == f'{path} with the compiled kernels is missing. To build it: {fix}.'


@pytest.mark.parametrize(
    ('platform', 'name'),
    [('linux', 'librebnn_ort.so'), ('darwin', 'librebnn_ort.dylib'), ('win32', 'librebnn_ort.dll')],
)
def test_each_system_has_its_names(platform, name, monkeypatch, tmp_path):
    monkeypatch.setattr(native_library, 'LIBRARY_FOLDER', tmp_path)
    monkeypatch.setattr(native_library.sys, 'platform', platform)
    (tmp_path / name).write_bytes(b'')
    assert native.library_path() == native_library.library_file('librebnn_ort') == tmp_path / name


def test_variable_names_another_build(monkeypatch, tmp_path):
    other = tmp_path / 'librebnn_ort.so'
    monkeypatch.setenv('REBNN_ORT_LIBRARY', str(other))
    with pytest.raises(native.LibraryError, match=f'REBNN_ORT_LIBRARY names {other}, and there is no such file.'):
        native.library_path()
    other.write_bytes((native_library.LIBRARY_FOLDER / 'librebnn_ort.so').read_bytes())
    assert native.register(onnxruntime.SessionOptions()) == other


@pytest.mark.parametrize('length', [0, 40, 5000, -1])
def test_library_that_was_cut_off(monkeypatch, tmp_path, length):
    other = tmp_path / 'librebnn_ort.so'
    other.write_bytes(native.library_path().read_bytes()[:length])
    monkeypatch.setenv('REBNN_ORT_LIBRARY', str(other))
    with pytest.raises(native.LibraryError, match=f'^{other} is not a complete shared library'):
        native.register(onnxruntime.SessionOptions())
    (tmp_path / 'librebnn.so').write_bytes(native_library.library_file('librebnn').read_bytes()[:length])
    monkeypatch.setattr(native_library, 'LIBRARY_FOLDER', tmp_path)
    assert native_library.load_kernels() is None


def test_library_of_32_bits_that_was_cut_off(tmp_path):
    library = tmp_path / 'librebnn.so'
    header = b'\x7fELF\x01\x01'.ljust(32, b'\0') + struct.pack('<I', 100) + bytes(10) + struct.pack('<HH', 40, 2)
    library.write_bytes(header.ljust(180, b'\0'))
    assert native_library.is_whole(library)
    library.write_bytes(header.ljust(179, b'\0'))
    assert not native_library.is_whole(library)


def test_library_that_has_no_operators(monkeypatch):
    monkeypatch.setenv('REBNN_ORT_LIBRARY', str(native_library.LIBRARY_FOLDER / 'librebnn.so'))
    with pytest.raises(native.LibraryError, match='^ONNX Runtime cannot use .*librebnn.so ') as caught:
        native.register(onnxruntime.SessionOptions())
    assert len(str(caught.value).splitlines()) == 1


def test_board_wheel_beside_the_full_package_is_refused(monkeypatch, tmp_path):
    about = tmp_path / 'rebnn_runtime-0.1.0.dist-info'
    about.mkdir()
    (about / 'METADATA').write_text('Metadata-Version: 2.1\nName: rebnn-runtime\nVersion: 0.1.0\n')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        native.LibraryError, match='rebnn_mm and rebnn-runtime are both installed and share one folder'
    ):
        native.library_path()


def test_torch_is_not_imported():
    code = "import sys; sys.modules['torch'] = None; from rebnn_mm.deploy import native; print(native.library_path())"
    command = (
        f'import importlib.util as u, sys; sys.path.insert(0, {str(native_library.LIBRARY_FOLDER.parents[2])!r})\n'
    )
    blocked = "real = u.find_spec\nu.find_spec = lambda n, *a: None if n == 'torch' else real(n, *a)\n"
    done = subprocess.run(
        [sys.executable, '-c', command + blocked + code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(native.library_path())
