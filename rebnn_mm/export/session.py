"""Packed models in ONNX Runtime, as the deploy package runs them."""

import ctypes

import onnxruntime

from rebnn_mm.deploy.loading import REORDERING, session_options
from rebnn_mm.deploy.native import LIBRARY_FOLDER, LibraryError, register


def open_session(model: bytes, library: bool) -> onnxruntime.InferenceSession:
    """A session with one thread that keeps the order of floating-point operations.

    Args:
        model: a serialised ONNX model.
        library: whether our kernels run the binary operators, or their local functions do.

    Raises:
        LibraryError: the library is asked for and is not there.
        Exception: ONNX Runtime does not accept the model; its errors have no common class below this one.
    """
    options = session_options(1)
    if library:
        register(options)
    return onnxruntime.InferenceSession(
        model, options, providers=['CPUExecutionProvider'], disabled_optimizers=REORDERING
    )


def half_products() -> str | None:
    """What a stem in half precision multiplies here: float16, bfloat16 or float32; None without the library.

    Example:
        >>> half_products() in ('float16', 'bfloat16', 'float32', None)
        True
    """
    path = LIBRARY_FOLDER / 'librebnn.so'
    if not path.is_file():
        return None
    name = ctypes.CDLL(str(path)).rebnn_stem_half_type
    name.restype = ctypes.c_char_p
    found = name()
    return None if found is None else str(found.decode())


def library_available() -> bool:
    """Whether the library with our kernels can be loaded.

    Example:
        >>> library_available() in (True, False)
        True
    """
    try:
        register(session_options(1))
    except LibraryError:
        return False
    return True
