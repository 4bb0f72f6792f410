"""Hands the compiled kernels to ONNX Runtime."""

from __future__ import annotations

import os
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rebnn_mm.errors import RebnnError
from rebnn_mm.native_library import is_whole, library_file

if TYPE_CHECKING:
    from onnxruntime import SessionOptions

THREADS = 'rebnn.threads'
"""Entry of a session's configuration: for how many threads our kernels plan their runs. ONNX Runtime does not tell a
library how many a session has; without the entry they plan for the processors that the process may use."""

MOST_THREADS = 1024
"""As many as the library plans for."""

VARIABLE = 'REBNN_ORT_LIBRARY'
"""Environment variable that names another build of the operators' library."""


class LibraryError(RebnnError):
    """The operators' library cannot be used; the text says why and how to get it."""


def library_path() -> Path:
    """Find the ONNX Runtime operators: ``librebnn_ort`` installed, or what ``REBNN_ORT_LIBRARY`` names."""
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise LibraryError(f'{VARIABLE} names {named}, and there is no such file.')
        return Path(named)
    _refuse_two_owners()
    path = library_file('librebnn_ort')
    if not path.is_file():
        raise LibraryError(f'{path} with the compiled kernels is missing. To build it: {_how_to_build()}.')
    return path


def _how_to_build() -> str:
    if not Path(__file__).parents[2].joinpath('setup.py').is_file():
        return 'install rebnn_mm again where there is a C++ compiler, without REBNN_SKIP_RUNTIME'
    if find_spec('torch') is None:
        return 'run `bash tools/build_board_wheel.sh`, and install the wheel that it writes'
    return 'run `make setup`'


def register(session_options: SessionOptions) -> Path:
    """Make sessions with these options compute binary layers with our kernels, on the options' number of threads."""
    path = library_path()
    if not os.access(path, os.R_OK):
        raise LibraryError(f'{path} cannot be read: change its permissions.')
    if not is_whole(path):
        raise LibraryError(f'{path} is not a complete shared library of a 64-bit system: install the package again.')
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


def _refuse_two_owners() -> None:
    """The full package and the board wheel write the same files; whichever goes leaves the other one in pieces."""
    for owner in ('rebnn_mm', 'rebnn-runtime'):
        try:
            metadata.version(owner)
        except metadata.PackageNotFoundError:
            return
    raise LibraryError(
        'rebnn_mm and rebnn-runtime are both installed and share one folder: run `pip uninstall -y rebnn_mm '
        'rebnn-runtime`, then install the one you need.'
    )
