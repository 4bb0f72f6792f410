r"""Damaged and hostile packed files: each must be refused in one sentence, or give an answer.

    python tests/deploy/fuzz_files.py --count 10000 --seed 1
    python tests/deploy/fuzz_files.py --count 10000 --seed 1 model.onnx --keep work_dirs/fuzz
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
        ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:max_allocation_size_mb=2048 \
        python tests/deploy/fuzz_files.py --alone build/runtime-tests/address rebnn_mm/zoo/blood-cells-nano.onnx

Half of the files are *damaged*: bytes changed, lost, doubled or moved after the file was written. An answer then must
be that of the whole file. The other half are *hostile*: changed on purpose in bytes or in meaning, with their digests
made right again, so that ONNX Runtime gets to see them. There any answer will do, but no crash, no hang and no other
exception. With --alone librebnn reads them itself, from a folder where it may be built with sanitizers.

Everything runs in a process of its own with bounded memory, so that a crash is counted and not suffered.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import ctypes
import functools
import json
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError

from rebnn_mm import native_library
from rebnn_mm.deploy import DeployError, load
from rebnn_mm.deploy.onnx_file import DIGEST_KEY, seal
from tests.deploy import models

MEMORY = 2 << 30
"""Bytes that a file may take."""

SECONDS = 30
BAD = ('another answer', 'another exception', 'crash', 'hang')
NUMBERS = (-(2**63), -(2**31), -1, 0, 1, 2, 3, 7, 255, 2**16, 2**31 - 1, 2**31, 2**40, 2**63 - 1)
TEXTS = ('', 'x', 'image', 'scores', 'maps', 'rebnn', 'BinaryConv', 'Conv', 'Loop', 'If', 'a' * 5000, '\x00')
JSON = (
    'null',
    '[]',
    '{}',
    '[[[[',
    '1e999',
    '[NaN]',
    '{"channels": "rgb", "mean": [1, 2], "std": [0, 0, 0]}',
    '[' * 100000,
)


def damage(data: bytes, rng: np.random.Generator) -> bytes:
    """The file with one to four injuries."""
    out = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        if not out:
            break
        at, length = int(rng.integers(len(out))), int(rng.integers(1, 65))
        kind = rng.integers(7)
        if kind == 0:
            out[at] ^= 1 << rng.integers(8)
        elif kind == 1:
            out[at : at + length] = rng.bytes(length)
        elif kind == 2:
            del out[at:]
        elif kind == 3:
            del out[at : at + length]
        elif kind == 4:
            out[at:at] = out[at : at + length]
        elif kind == 5:
            out[at : at + length] = bytes([int(rng.choice([0, 0x7F, 0x80, 0xFF]))]) * length
        else:
            source = int(rng.integers(len(out)))
            out[at : at + length] = out[source : source + length]
    return bytes(out)


def distort(data: bytes, rng: np.random.Generator) -> bytes:
    """The file with one or two changes of its content."""
    proto = onnx.ModelProto.FromString(data)
    for _ in range(rng.integers(1, 3)):
        _distort(proto, rng)
    return proto.SerializeToString()


def forge(data: bytes) -> bytes:
    """Give every digest the value that the changed content asks for, if the file can still be parsed."""
    try:
        proto = onnx.ModelProto.FromString(data)
        entries = {entry.key: entry.value for entry in proto.metadata_props}
        entries.pop(DIGEST_KEY, None)
        entries['rebnn.packed_sha256'] = json.dumps(models.packed_digests(proto.graph))
        onnx.helper.set_model_props(proto, entries)
        return seal(proto.SerializeToString())
    except (DecodeError, DeployError, UnicodeDecodeError, ValueError):
        return data


def _distort(proto: onnx.ModelProto, rng: np.random.Generator) -> None:
    def pick(values: Any) -> Any:
        return values[int(rng.integers(len(values)))] if len(values) else None

    functions = [function for function in proto.functions if rng.random() < 0.3]
    nodes = pick(functions).node if functions else proto.graph.node
    constants = [node.attribute[0].t for node in nodes if node.op_type == 'Constant' and node.attribute]
    node, tensor = pick(nodes), pick(constants if constants and rng.random() < 0.5 else proto.graph.initializer)
    entry, value_info = pick(proto.metadata_props), pick([*proto.graph.input, *proto.graph.output])
    kind = rng.integers(15)
    if kind == 0 and node is not None and node.attribute:
        attribute = pick(node.attribute)
        attribute.i = int(pick(NUMBERS))
        if attribute.ints:
            attribute.ints[int(rng.integers(len(attribute.ints)))] = int(pick(NUMBERS))
    elif kind == 1 and node is not None and node.attribute:
        node.attribute.remove(pick(node.attribute))
    elif kind == 2 and node is not None and node.input:
        other = pick(nodes)
        node.input[int(rng.integers(len(node.input)))] = pick([*TEXTS, *other.input, *other.output])
    elif kind == 3 and node is not None and node.input:
        del node.input[int(rng.integers(len(node.input))) :]
    elif kind == 4 and node is not None:
        node.op_type = pick([*TEXTS, *(other.op_type for other in nodes)])
    elif kind == 5 and node is not None:
        nodes.remove(node)
    elif kind == 6 and tensor is not None and tensor.dims:
        tensor.dims[int(rng.integers(len(tensor.dims)))] = int(pick(NUMBERS))
    elif kind == 7 and tensor is not None:
        tensor.data_type = int(rng.integers(0, 24))
    elif kind == 8 and tensor is not None:
        tensor.raw_data = damage(tensor.raw_data, rng)
    elif kind == 9 and entry is not None:
        entry.value = pick([*TEXTS, *JSON, str(pick(NUMBERS)), *(other.value for other in proto.metadata_props)])
    elif kind == 10 and value_info is not None and value_info.type.tensor_type.shape.dim:
        pick(value_info.type.tensor_type.shape.dim).dim_value = int(pick(NUMBERS))
    elif kind == 11 and tensor is not None and tensor.data_type == onnx.TensorProto.INT64:
        values = np.frombuffer(tensor.raw_data, np.int64).copy()
        values[rng.integers(len(values)) if len(values) else slice(0)] = pick(NUMBERS)
        tensor.raw_data = values.tobytes()
    elif kind == 12 and tensor is not None and tensor.dims and 0 not in tensor.dims:
        # Another size, and as many bytes as that asks for.
        axis, size = int(rng.integers(len(tensor.dims))), int(rng.integers(9))
        row = len(tensor.raw_data) // tensor.dims[axis]
        tensor.dims[axis] = size
        tensor.raw_data = (tensor.raw_data * 9)[: row * size]
    elif kind == 13 and tensor is not None and tensor.dims:
        shape = [1, *tensor.dims] if rng.random() < 0.5 else tensor.dims[1:]
        del tensor.dims[:]
        tensor.dims.extend(shape)
    elif kind == 14:
        pick(proto.opset_import).version = int(pick(NUMBERS))


def answer(path: Path, use_library: bool) -> list[bytes]:
    """What a file gives on two images, byte by byte."""
    rng = np.random.default_rng(0)
    model = load(path, use_library=use_library)
    images = [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in ((40, 56), (33, 31))]
    return [array.tobytes() for image in images for array in model.run(model.prepare(image))] + [
        repr(model(images[0])).encode()
    ]


def answer_alone(path: Path) -> list[bytes]:
    """What a file gives on two images, byte by byte, by librebnn alone."""
    from tests.runtime import test_model as reader

    data, answers = path.read_bytes(), []
    for seed, size in enumerate(((64, 96), (32, 32))):
        image = reader.noise(seed, *size)
        try:
            with reader.loaded(data, *size) as (library, model):
                scratch, most = ctypes.c_size_t(), ctypes.c_int64()
                numbers = [ctypes.byref(value) for value in (ctypes.c_int64(), ctypes.c_int64(), scratch)]
                assert library.rebnn_model_sizes(model, *numbers) == 0
                assert library.rebnn_model_most_detections(model, ctypes.byref(most)) == 0
            if scratch.value > MEMORY // 8:
                continue  # a file may ask for any memory
            found = reader.detect(data, image, size) if most.value else [reader.run(data, image)]
            answers += [array.tobytes() for array in found]
        except reader.Refused as refusal:
            raise DeployError(str(refusal)) from None
    return answers


def serve(link: Connection, folder: str, answer: Callable[[Path], list[bytes]], bounded: bool) -> None:
    """Answer files until there are no more: the outcome, and the words of a refusal."""
    if bounded:
        pages = int(Path('/proc/self/statm').read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter('ignore')
    path = Path(folder, 'file.onnx')
    while True:
        path.write_bytes(link.recv_bytes())
        try:
            outcome = ('answer', answer(path))
        except DeployError as error:
            text = str(error)
            outcome = ('refused' if '\n' not in text and len(text) <= 600 else 'another exception', text)
        except Exception as error:
            outcome = ('another exception', f'{type(error).__name__}: {error}')
        link.send(outcome)


class Server:
    """A process that runs files; a new one is started when it dies."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.start()

    def start(self) -> None:
        self.link, other = multiprocessing.Pipe()
        context = multiprocessing.get_context('fork')
        self.process = context.Process(target=serve, args=(other, *self.arguments), daemon=True)
        self.process.start()
        other.close()

    def close(self) -> None:
        self.process.kill()
        self.process.join()
        self.link.close()

    def ask(self, data: bytes) -> tuple[str, Any]:
        """The outcome of one file."""
        try:
            self.link.send_bytes(data)
            if self.link.poll(SECONDS):
                return self.link.recv()
            outcome = ('hang', f'no answer within {SECONDS} s')
        except (EOFError, ConnectionError):
            self.process.join()
            outcome = ('crash', f'exit code {self.process.exitcode}')
        self.close()
        self.start()
        return outcome


def fuzz(
    files: list[bytes], count: int, seed: int, use_library: bool, keep: Path | None = None, alone: bool = False
) -> collections.Counter:
    """Run ``count`` changed files; how often each outcome came, by 'damaged' or 'hostile'."""
    # Sanitizers need more addresses than any limit leaves.
    run = answer_alone if alone else functools.partial(answer, use_library=use_library)
    rng = np.random.default_rng(seed)
    counts: collections.Counter = collections.Counter()
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder, run, not alone)
        with contextlib.closing(server):
            whole = [server.ask(data) for data in files]
            assert all(kind == 'answer' for kind, _ in whole), whole
            for index in range(count):
                which = int(rng.integers(len(files)))
                data = files[which]
                hostile = bool(rng.random() < 0.5)
                if not hostile:
                    changed = damage(data, rng)
                else:
                    changed = forge(distort(data, rng) if rng.random() < 0.7 else damage(data, rng))
                outcome, words = server.ask(changed)
                if outcome == 'answer':
                    same = words == whole[which][1]
                    outcome = 'same answer' if same else 'an answer' if hostile else 'another answer'
                counts['hostile' if hostile else 'damaged', outcome] += 1
                if outcome in BAD:
                    print(f'file {index}: {outcome}: {str(words)[:300]}', flush=True)
                    if keep is not None:
                        keep.mkdir(parents=True, exist_ok=True)
                        (keep / f'{seed}_{index}.onnx').write_bytes(changed)
                if (index + 1) % 1000 == 0:
                    passed = time.monotonic() - started
                    left = passed / (index + 1) * (count - index - 1)
                    print(f'{index + 1} of {count}, {passed:.0f} s passed, {left:.0f} s left', file=sys.stderr)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('files', nargs='*', type=Path, help='packed models to change; default: three small ones')
    parser.add_argument('--count', type=int, default=1000)
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--keep', type=Path, help='folder for files that ended badly')
    parser.add_argument('--no-library', action='store_true')
    parser.add_argument('--alone', type=Path, help='folder of the librebnn that reads the files without ONNX Runtime')
    args = parser.parse_args()
    if args.alone is not None:
        native_library.LIBRARY_FOLDER = args.alone
    files = [path.read_bytes() for path in args.files] or models.sealed_files()
    counts = fuzz(files, args.count, args.seed, not args.no_library, args.keep, args.alone is not None)
    for (kind, outcome), number in sorted(counts.items()):
        print(f'{kind:<8} {outcome:<18} {number}')
    raise SystemExit(any(outcome in BAD for _, outcome in counts))


if __name__ == '__main__':
    main()
