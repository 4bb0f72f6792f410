"""Packed bits are those of the values, by NumPy's way, PyTorch's, and Triton's kernels in their interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rebnn_mm.functional import bits
from rebnn_mm.functional.bits import NEGATIVE, TRUE, WITHIN_ONE, pack, unpack
from rebnn_mm.functional.sign import sign
from tests.scripts import run_code

ROOT = Path(__file__).parents[2]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 1.0000001, float('nan'), float('inf'), -float('inf'), 1e-45, -1e-45]
SHAPES = [(1,), (8,), (3, 5), (2, 3, 25, 14), (0, 3)]


def values(shape, dtype=torch.float32):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 1.5
    flat = x.view(-1)
    flat[: len(SPECIAL)] = torch.tensor(SPECIAL)[: len(flat)]
    return x.to(dtype)


def plain(x, what):
    return {NEGATIVE: x < 0, WITHIN_ONE: x.abs() <= 1, TRUE: x != 0}[what]


def by_hand(flags):
    """Bytes of flags, each bit added up."""
    flags = [int(flag) for flag in flags]
    return [sum(bit << place for place, bit in enumerate(flags[i : i + 8])) for i in range(0, len(flags), 8)]


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize('shape', SHAPES, ids=str)
@pytest.mark.parametrize('what', [NEGATIVE, WITHIN_ONE, TRUE])
def test_bits_of_values(what, shape, dtype):
    x = values(shape, dtype)
    packed, layout = pack(x, what)
    assert packed.tolist() == by_hand(plain(x, what).flatten())
    assert torch.equal(unpack(packed, layout, torch.bool), plain(x, what))


@pytest.mark.parametrize('dtype', [torch.float32, torch.bfloat16], ids=str)
def test_signs_are_those_of_the_layers(dtype):
    x = values((2, 3, 5, 4), dtype)
    found = unpack(*pack(x), dtype)
    assert found.dtype == dtype and torch.equal(found, sign(x))


@pytest.mark.parametrize('prepare', [
    lambda x: x.contiguous(memory_format=torch.channels_last), lambda x: x.transpose(1, 3), lambda x: x[:, 1:],
    lambda x: x[:1].expand(3, -1, -1, -1),
])  # fmt: skip
def test_every_layout_gives_its_own_values(prepare):
    x = prepare(values((2, 3, 5, 4)))
    assert torch.equal(unpack(*pack(x)), sign(x))
    assert torch.equal(unpack(*pack(x, WITHIN_ONE), torch.bool), x.abs() <= 1)


def test_pytorchs_operators_give_the_same_bytes(monkeypatch):
    class Elsewhere(torch.Tensor):
        """Says that it is not on a CPU."""

        @property
        def device(self):
            return torch.device('meta')

    flags = values((5, 5)).flatten() < 0
    expected, _ = pack(flags, TRUE)
    monkeypatch.setattr(torch, 'arange', lambda *args, device=None, **kwargs: torch.tensor(range(8), **kwargs))
    assert torch.equal(bits._pack_words(flags.as_subclass(Elsewhere)).as_subclass(torch.Tensor), expected)


@pytest.mark.slow
@pytest.mark.skipif('TRITON_INTERPRET' in os.environ, reason='this is the interpreter')
def test_tritons_kernels_in_their_interpreter():
    """The tests of this file once more, with the kernels in place of NumPy."""
    pytest.importorskip('triton')
    command = [sys.executable, '-m', 'pytest', '-q', '-x', '-p', 'no:cacheprovider', __file__]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, 'TRITON_INTERPRET': '1'},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout


COMPILE = """
import re, torch
torch.cuda.is_available = lambda: True  # compiling needs no card
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from rebnn_mm.functional.bits import BLOCK, NEGATIVE, TRUE, WITHIN_ONE, _pack, _unpack

packing = [
    (_pack, dict(x=kind, bits='*u8', count=count), dict(WHAT=what, BYTES=BLOCK // 8))
    for kind, count, what in [('*fp32', 'i32', NEGATIVE), ('*bf16', 'i64', WITHIN_ONE), ('*u8', 'i32', TRUE)]
]
unpacking = [
    (_unpack, dict(bits='*u8', y=kind, count=count), dict(SIGNS=signs, VALUES=BLOCK))
    for kind, count, signs in [('*fp32', 'i32', True), ('*bf16', 'i64', True), ('*u8', 'i32', False)]
]
for kernel, types, constants in packing + unpacking:
    source = ASTSource(kernel, types | dict.fromkeys(constants, 'constexpr'), constants)
    made = triton.compile(source, target=GPUTarget('cuda', 90, 32)).asm
    offsets = re.findall(r'tt[.]addptr .* : .*, tensor<[0-9x]*(i[0-9]+)>', made['ttir'])
    assert len(made['cubin']) > 1000 and offsets == ['i64'] * 2, offsets
"""


@pytest.mark.slow
def test_the_kernels_compile_for_a_gpu_with_offsets_of_64_bits(tmp_path, monkeypatch):
    pytest.importorskip('triton')
    monkeypatch.setenv('TRITON_CACHE_DIR', str(tmp_path))
    monkeypatch.delenv('TRITON_INTERPRET', raising=False)
    done = run_code(COMPILE)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif('TRITON_INTERPRET' not in os.environ, reason='needs the interpreter')
def test_the_kernels_have_run(monkeypatch):
    x = values((3, 50))
    monkeypatch.setattr(bits, '_pack_words', None)
    assert torch.equal(unpack(*pack(x)), sign(x))
