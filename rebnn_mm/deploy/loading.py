"""Loads a packed model."""

from __future__ import annotations

import warnings
from os import PathLike
from pathlib import Path

import onnxruntime

from .classifier import Classifier
from .detector import Detector
from .errors import ModelFileError, first_sentence, why_no_file
from .metadata import Metadata
from .onnx_file import check_digest, check_packed, read_onnx
from .raw import RawModel
from .text_classifier import TextClassifier

Loaded = Classifier | Detector | RawModel | TextClassifier

MODELS: dict[str, type[Classifier] | type[Detector] | type[RawModel] | type[TextClassifier]] = {
    'classification': Classifier,
    'detection': Detector,
    'raw': RawModel,
    'text-classification': TextClassifier,
}

MAX_BYTES = (1 << 31) - 1
"""Protobuf reads no longer message."""

# These fold a factor or a summand into the weights of a convolution. The sums of a binary convolution would no longer
# be whole numbers where its local function runs, and rounding would not follow the order that docs/format.md states.
# The last one moves a mean over all positions in front of the Transpose at the end of such a function.
REORDERING = [
    *('ConvMulFusion', 'ConvAddFusion', 'ConvBNFusion', 'MatMulBNFusion'),
    *('TransposeOptimizer', 'TransposeOptimizer_CPUExecutionProvider'),
]


def load(path: str | PathLike[str], threads: int = 1, use_library: bool = True) -> Loaded:
    """Check a packed model and make it ready to run.

    Args:
        path: file written by ``tools/export.py``.
        threads: how many threads ONNX Runtime may use for one image.
        use_library: use the kernels of the ``rebnn_ort`` library. Without them the binary layers run by ONNX Runtime's
            own operators: the same answers, many times slower.

    Returns:
        :class:`Classifier`, :class:`Detector`, :class:`TextClassifier` or :class:`RawModel`, by the file's
        ``rebnn.task``.

    Raises:
        ModelFileError: there is no such file, it is damaged, of another format version, or not a packed model.
        ValueError: ``threads`` is not a whole number from 1 on.

    Example:
        >>> load('nowhere.onnx')
        Traceback (most recent call last):
        ...
        rebnn_mm.deploy.errors.ModelFileError: no packed model at nowhere.onnx; tools/export.py writes one
    """
    if type(threads) is not int or threads < 1:
        raise ValueError(f'threads must be a whole number from 1 on, not {threads!r}')
    problem = why_no_file(path, 'packed model', '; tools/export.py writes one')
    if problem is not None:
        raise ModelFileError(problem)
    path = Path(path)
    data = _read(path)
    try:
        file = read_onnx(data)
        metadata = Metadata.parse(file.metadata)
        check_digest(data, file)
        check_packed(file, metadata.packed_sha256)
    except ModelFileError as error:
        raise ModelFileError(f'{path}: {error}') from None
    options = session_options(threads)
    if use_library and file.binary_weights:
        _register(options)
    try:
        session = onnxruntime.InferenceSession(
            data, options, providers=['CPUExecutionProvider'], disabled_optimizers=REORDERING, enable_fallback=0
        )
    except Exception as error:  # its classes have no common base below Exception
        raise ModelFileError(f'{path}: ONNX Runtime does not accept it ({first_sentence(error)})') from None
    return MODELS[metadata.task](str(path), metadata, session)


def session_options(threads: int) -> onnxruntime.SessionOptions:
    """Options of a session in which a file gives the same bits with our library and without it.

    A session also needs ``disabled_optimizers=REORDERING``, which is no option. The blocked layout of level "all" is
    left out: which real layers it takes in, and so how they round, depends on who computes the binary ones.

    Example:
        >>> session_options(2).intra_op_num_threads
        2
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    # what goes wrong is raised, so that it need not be written to the terminal as well
    options.log_severity_level = 4
    return options


def _read(path: Path) -> bytes:
    if path.stat().st_size > MAX_BYTES:
        raise ModelFileError(f'{path}: it is longer than the 2 GiB that an ONNX file can have')
    try:
        return path.read_bytes()
    except OSError as error:
        raise ModelFileError(f'{path} cannot be read ({first_sentence(error)})') from None


def _register(options: onnxruntime.SessionOptions) -> None:
    from . import native

    try:
        native.register(options)
    except native.LibraryError as error:
        warnings.warn(f'{error} Without it this model runs many times slower.', RuntimeWarning, stacklevel=3)
