"""Loads a packed model."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import IO

from ..errors import RebnnError
from .classifier import Classifier
from .detector import Detector
from .errors import ModelFileError, check_file, first_sentence
from .hub import hub_path, in_hub
from .metadata import Metadata
from .model import LoadedModel, RawModel
from .native import MOST_THREADS
from .onnx_file import check_digest, check_packed, read_onnx
from .operators import check_operators
from .session import library_problem, open_session
from .text_classifier import TextClassifier
from .zoo import card_of, in_zoo, like_zoo, zoo_path

Loaded = Classifier | Detector | RawModel | TextClassifier

MODELS: dict[str, type[Classifier] | type[Detector] | type[RawModel] | type[TextClassifier]] = {
    'classification': Classifier,
    'detection': Detector,
    'raw': RawModel,
    'text-classification': TextClassifier,
}

MAX_BYTES = (1 << 31) - 1
"""Protobuf reads no longer message."""


def load(
    path: str | PathLike[str] | bytes | IO[bytes],
    threads: int = 1,
    use_library: bool = True,
    size: tuple[int, int] | None = None,
    providers: Sequence[str] = (),
) -> Loaded:
    """Check a packed model and make it ready to run.

    Args:
        path: file written by ``rebnn export``, or ``zoo:`` and the name of a trained model of the package,
            or ``hf:owner/name`` for one of the Hugging Face hub; or the bytes of a file, or a file that is open for
            reading bytes. A model that was loaded by its path is pickled and copied as that path, another one with
            its bytes.
        threads: how many threads ONNX Runtime may use for one image.
        use_library: use the kernels of the ``rebnn_ort`` library. Without them the binary layers run by ONNX Runtime's
            own operators, many times slower. The answer is the same to the last bit, but for files of ``--fast``:
            there full-precision layers are rounded differently, and a sign may turn.
        size: width and height of the images that a classifier was trained on, where its file does not say them. Such a
            file, of an earlier version or of a config without a resize, takes no image otherwise.
        providers: execution providers of ONNX Runtime that may take full-precision layers, such as ``['CUDA']``, where
            it has them. Binary layers stay on the processor if our kernels run them. Rounding is the provider's own.

    Returns:
        :class:`Classifier`, :class:`Detector`, :class:`TextClassifier` or :class:`RawModel`, by the file's
        ``rebnn.task``.

    Raises:
        ModelFileError: there is no such file, it is damaged, of another format version, or not a packed model; or
            ``size`` is given for one that has a size, or a provider is not there.
        ValueError: ``threads`` is not a whole number from 1 to 1024, or ``size`` is not two of them from 1 on.

    Example:
        >>> load('nowhere.onnx')
        Traceback (most recent call last):
        ...
        rebnn_mm.deploy.errors.ModelFileError: no packed model at nowhere.onnx; rebnn export writes one
    """
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise RebnnError(f'threads must be a whole number from 1 to {MOST_THREADS}, not {threads!r}')
    two = isinstance(size, list | tuple) and len(size) == 2
    if size is not None and not (two and all(type(side) is int and side > 0 for side in size)):
        raise RebnnError(f'size must be a width and a height in pixels, not {size!r}')
    name, source, data = _read(path)
    try:
        file = read_onnx(data)
        metadata = Metadata.parse(file.metadata)
        check_digest(data, file)
        check_packed(file, metadata.packed_sha256)
        check_operators(file)
    except ModelFileError as error:
        raise ModelFileError(f'{name}: {error}') from None
    library = use_library and file.has_operators
    problem = library_problem() if library else ''
    if problem:
        warnings.warn(f'No compiled kernels, so this runs slower: {problem}', RuntimeWarning, stacklevel=2)
    try:
        session = open_session(
            data, library=library and not problem, threads=threads, blocked=metadata.blocked, providers=providers
        )
    except ValueError as error:
        raise ModelFileError(f'{name}: {error}') from None
    except Exception as error:  # its classes have no common base below Exception
        raise ModelFileError(f'{name}: ONNX Runtime does not accept it ({first_sentence(error)})') from None
    model = MODELS[metadata.task](name, metadata, session)
    model.kernels, model.source, model.size, model.providers = use_library, source, size, tuple(providers)
    if isinstance(model, Classifier) and not model.gives_size:
        model.resize_to(size or card_of(source).get('size'))  # that of one file is in its card alone
    elif size is not None:
        raise ModelFileError(f'{name}: size is for a classifier whose file gives its images none; leave it out')
    return model


LoadedModel.opened_by = staticmethod(load)


def locate_model(path: str | PathLike[str]) -> str | PathLike[str]:
    """Find the file that ``zoo:<name>`` or ``hf:owner/name`` stands for, or keep a path; one of the hub is fetched."""
    if in_zoo(path):
        return zoo_path(path)
    return hub_path(path) if in_hub(path) else path


def _read(given: str | PathLike[str] | bytes | IO[bytes]) -> tuple[str, str | bytes, bytes]:
    """The name of a file for messages, where it can be read again, and its bytes."""
    if isinstance(given, bytes | bytearray | memoryview) or hasattr(given, 'read'):
        data = given.read() if hasattr(given, 'read') else bytes(given)
        if not isinstance(data, bytes):
            raise ModelFileError('a packed model is read from files that are open for bytes: open(path, "rb")')
        name = f'what was given as {len(data)} bytes'
        _check_length(name, len(data))
        return name, data, data
    path = locate_model(given)
    check_file(path, 'packed model', ModelFileError, like_zoo(str(path)) or '; rebnn export writes one')
    path = Path(path)
    _check_length(str(path), path.stat().st_size)
    try:
        return str(path), str(path.absolute()), path.read_bytes()
    except OSError as error:
        raise ModelFileError(f'{path} cannot be read ({first_sentence(error)})') from None


def _check_length(name: str, length: int) -> None:
    if length > MAX_BYTES:
        raise ModelFileError(f'{name}: it is longer than the 2 GiB that an ONNX file can have')
