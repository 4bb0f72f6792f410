"""Finds the compiled kernels and hands them to ONNX Runtime."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

LIBRARY_FOLDER = Path(__file__).parent / 'lib'
SUFFIXES = {'darwin': '.dylib', 'win32': '.dll'}
"""Ends of the names of shared libraries by ``sys.platform``; '.so' elsewhere."""

THREADS = 'rebnn.threads'
"""Entry of a session's configuration: for how many threads our kernels plan their runs. ONNX Runtime does not tell a
library how many a session has; without the entry they plan for the processors that the process may use."""

MOST_THREADS = 1024
"""As many as the library plans for."""

VARIABLE = 'REBNN_ORT_LIBRARY'
"""Environment variable that names another build of the operators' library."""


class LibraryError(RuntimeError):
    """The operators' library cannot be used; the text says why and how to get it."""


def library_file(name: str) -> Path:
    """Return the path of one of our two libraries, whether it is there or not.

    Args:
        name: 'librebnn' or 'librebnn_ort'.

    Example:
        >>> library_file('librebnn').stem
        'librebnn'
    """
    return LIBRARY_FOLDER / f'{name}{SUFFIXES.get(sys.platform, ".so")}'


def library_path() -> Path:
    """Find the ONNX Runtime operators: ``librebnn_ort`` next to this file, or what ``REBNN_ORT_LIBRARY`` names.

    Raises:
        LibraryError: there is no such file, or two distributions claim the folder that it lies in.

    Example:
        >>> library_path().stem
        'librebnn_ort'
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise LibraryError(f'{VARIABLE} names {named}, and there is no such file.')
        return Path(named)
    _refuse_two_owners()
    path = library_file('librebnn_ort')
    if not path.is_file():
        raise LibraryError(
            f'The kernels for binary layers are not at {path}: run `make setup` in a clone, or install rebnn_mm again '
            'where there is a C++ compiler and without REBNN_SKIP_RUNTIME.'
        )
    return path


def load_kernels() -> ctypes.CDLL | None:
    """``librebnn`` itself, which the operators call; None if it is not there or cannot be loaded.

    Example:
        >>> load_kernels() is not None
        True
    """
    path = library_file('librebnn')
    try:
        return ctypes.CDLL(str(path)) if _is_whole(path) else None
    except OSError:
        return None


def register(session_options: SessionOptions) -> Path:
    """Make sessions with these options compute binary layers with our kernels, on as many threads as the options say.

    Args:
        session_options: with ``intra_op_num_threads`` set, if it is to be another number than ONNX Runtime's own.

    Returns:
        The library in use.

    Raises:
        LibraryError: the library is missing, or this ONNX Runtime cannot load it.

    Example:
        >>> import onnxruntime
        >>> register(onnxruntime.SessionOptions()).stem
        'librebnn_ort'
    """
    path = library_path()
    if not os.access(path, os.R_OK):
        raise LibraryError(f'{path} cannot be read: change its permissions.')
    if not _is_whole(path):
        raise LibraryError(f'{path} is no complete shared library of a 64-bit system: install the package again.')
    threads = session_options.intra_op_num_threads
    try:
        if threads > 0:
            session_options.add_session_config_entry(THREADS, str(threads))
        session_options.register_custom_ops_library(str(path))
    except Exception as error:  # classes of ONNX Runtime, which have no common base below Exception
        # Its own words for this: the file is also loaded alone, without the package.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip('. ')
        raise LibraryError(f'ONNX Runtime cannot use {path} ({reason}).') from error
    return path


def _is_whole(path: Path) -> bool:
    """Whether an ELF file reaches to the end of its section table, its last part; loading a shorter one is fatal.

    Where libraries have another form the system looks at them itself.
    """
    if sys.platform in SUFFIXES:
        return True
    with path.open('rb') as file:
        header = file.read(64)
        size = file.seek(0, os.SEEK_END)
    if len(header) < 64 or header[:6] != b'\x7fELF\x02\x01':
        return False
    (table,) = struct.unpack_from('<Q', header, 40)
    entry, count = struct.unpack_from('<HH', header, 58)
    return bool(table + entry * count <= size)


def _refuse_two_owners() -> None:
    """The full package and the board wheel write the same files; whichever goes leaves the other one in pieces."""
    owners = [name for name in ('rebnn_mm', 'rebnn-runtime') if _is_installed(name)]
    if len(owners) == 2:
        raise LibraryError(
            'rebnn_mm and rebnn-runtime are both installed and share one folder: run `pip uninstall -y rebnn_mm '
            'rebnn-runtime`, then install the one you need.'
        )


def _is_installed(distribution: str) -> bool:
    try:
        metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
