"""Find the compiled libraries and load the first: for training, packed files and setup.py; needs only Python."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from pathlib import Path

LIBRARY_FOLDER = Path(__file__).parent / 'deploy' / 'lib'
SUFFIXES = {'darwin': '.dylib', 'win32': '.dll'}
"""Ends of the names of shared libraries by ``sys.platform``; '.so' elsewhere."""

ABI = 4
"""``REBNN_ABI_VERSION`` of runtime/include/rebnn.h."""


def library_file(name: str) -> Path:
    """Name the file of 'librebnn' or 'librebnn_ort', whether it is there or not."""
    return LIBRARY_FOLDER / f'{name}{SUFFIXES.get(sys.platform, ".so")}'


def load_kernels() -> ctypes.CDLL | None:
    """Load ``librebnn``, which the operators call; None where it is missing, or not for this version or processor."""
    path = library_file('librebnn')
    try:
        found = ctypes.CDLL(str(path)) if is_whole(path) else None
        if found is None or found.rebnn_abi_version() != ABI:
            return None
        found.rebnn_last_error.restype = found.rebnn_isa.restype = found.rebnn_isas.restype = ctypes.c_char_p
        return None if found.rebnn_isa() is None else found
    except (OSError, AttributeError):
        return None


def instruction_sets() -> list[str]:
    """Names of the kernels that ``librebnn`` was built with, the fastest first; this processor may lack some."""
    library = load_kernels()
    return [] if library is None else str(library.rebnn_isas().decode()).split(', ')


def is_whole(path: Path) -> bool:
    """Whether an ELF file reaches to the end of its section table, its last part; loading a shorter one is fatal."""
    if sys.platform in SUFFIXES:
        return True
    with path.open('rb') as file:
        header = file.read(64)
        size = file.seek(0, os.SEEK_END)
    if len(header) < 64 or header[:4] != b'\x7fELF' or header[5] != 1:
        return False
    if header[4] == 1:  # 32 bits
        (table,), (entry, count) = struct.unpack_from('<I', header, 32), struct.unpack_from('<HH', header, 46)
    else:
        (table,), (entry, count) = struct.unpack_from('<Q', header, 40), struct.unpack_from('<HH', header, 58)
    return bool(table + entry * count <= size)
