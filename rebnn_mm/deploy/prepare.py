"""Preparing an image by the kernels of librebnn, where they are installed; to the last bit what NumPy gives."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import NamedTuple

import numpy as np

from rebnn_mm.native_library import load_kernels

ALIGNMENT = 64


class Steps(NamedTuple):
    """Steps for an image of one size; pairs are height and width, or y and x."""

    resized: tuple[int, int]  # size that the whole image gets
    crop: tuple[int, int]  # first pixel of that that is kept
    kept: tuple[int, int]  # how many are kept
    size: tuple[int, int]  # of the result
    reverse: bool  # whether the last channel becomes the first
    mean: np.ndarray | None  # float32 [3], in the result's order; None to leave the pixels as they are
    std: np.ndarray | None  # the same
    fill: np.ndarray  # float32 [3], what is around the kept pixels


class _Image(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int64) for name in ('height', 'width', 'row_bytes')),
        ('image', ctypes.c_void_p),
        ('resized', ctypes.c_int64 * 2),
        ('crop', ctypes.c_int64 * 4),
        ('size', ctypes.c_int64 * 2),
        ('offset', ctypes.c_int64 * 2),
        ('reverse', ctypes.c_int32),
        *((name, ctypes.c_void_p) for name in ('mean', 'std', 'fill', 'y')),
    )


@cache
def kernels() -> ctypes.CDLL | None:
    """The library, or None if there is none that prepares images."""
    found = load_kernels()
    if found is not None:
        found.rebnn_image_rows.argtypes = (
            *(ctypes.POINTER(_Image), ctypes.c_int64, ctypes.c_int64),
            *(ctypes.c_void_p, ctypes.c_size_t),
        )
        found.rebnn_image_scratch_size.argtypes = ctypes.POINTER(_Image), ctypes.POINTER(ctypes.c_size_t)
    return found


def prepare_image(image: np.ndarray, steps: Steps) -> np.ndarray | None:
    """Apply the steps to an image: float32 [1, 3, height, width]; None if NumPy has to do it."""
    library = kernels()
    if library is None or max(*image.shape[:2], *steps.resized) > 1 << 28:
        return None
    if image.strides[1:] != (3, 1) or image.strides[0] < 3 * image.shape[1]:
        image = image.copy()  # ascontiguousarray would keep the stride of a single row, which may be 0
    y = np.empty((1, 3, *steps.size), np.float32)
    io = _Image(
        *image.shape[:2],
        image.strides[0],
        image.ctypes.data,
        steps.resized,
        (*steps.crop, *steps.kept),
        steps.size,
        (0, 0),  # where the first kept pixel lies in the result
        steps.reverse,
        *(None if array is None else array.ctypes.data for array in (steps.mean, steps.std, steps.fill)),
        y.ctypes.data,
    )
    needed = ctypes.c_size_t()
    _check(library, library.rebnn_image_scratch_size(io, needed))
    scratch = np.empty(needed.value + ALIGNMENT, np.uint8)
    start = scratch.ctypes.data
    start += -start % ALIGNMENT
    _check(library, library.rebnn_image_rows(io, 0, steps.size[0], start, needed.value))
    return y


def _check(library: ctypes.CDLL, status: int) -> None:
    if status:
        raise RuntimeError(library.rebnn_last_error().decode())
