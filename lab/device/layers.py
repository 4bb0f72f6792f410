"""Layers, blocks and bits on a device compared with those on a CPU."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn

from rebnn_mm.layers import BinaryConv2d, BinaryLinear
from rebnn_mm.quantizers import ActivationQuantizer, WeightQuantizer
from rebnn_mm.registry import BLOCKS

from .cost import packing_time
from .finding import Finding, Findings, Outcome, differences, exact, list_own, outcome

ROUNDING = {torch.float32: 2e-5, torch.bfloat16: 6e-2, torch.float16: 2e-2}
"""Largest difference from float32 on a CPU, of the largest magnitude of a tensor: other orders of the same sums, and
under autocast the rounding of outputs and gradients to 8 or 11 bits."""


def modes(channels_last: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """List what a layer is tried with: float32, both layouts, both kinds of half precision."""
    yield 'float32', {}
    if channels_last:
        yield 'channels_last', dict(channels_last=True)
        yield 'channels_last, bfloat16', dict(channels_last=True, dtype=torch.bfloat16)
    yield 'bfloat16', dict(dtype=torch.bfloat16)
    yield 'float16', dict(dtype=torch.float16)


def compare_with_cpu(name: str, module: nn.Module, x: Tensor, device: str) -> Findings:
    """A module's training step on the device compared with the one on a CPU, in every mode."""
    with exact():
        expected = outcome(module, x, 'cpu')
        for mode, options in modes(x.dim() == 4):
            found = outcome(module, x, device, **options)
            # Under autocast not everything is rounded; what comes out differs by the rounding of what goes in.
            yield differences(f'{name}, {mode}', found, expected, ROUNDING[options.get('dtype', torch.float32)])


def check_layers(device: str) -> Findings:
    """Every method's layers and every quantizer, against the CPU."""
    for name in list_own(BinaryConv2d):
        torch.manual_seed(0)
        layer = MODELS.build(dict(type=name, in_channels=16, out_channels=12, kernel_size=3, padding=1))
        yield from compare_with_cpu(name, layer, torch.randn(2, 16, 8, 7), device)
    for name in list_own(BinaryLinear):
        torch.manual_seed(0)
        layer = MODELS.build(dict(type=name, in_features=24, out_features=12))
        yield from compare_with_cpu(name, layer, torch.randn(2, 9, 24), device)
    for kind, base in (('weight', WeightQuantizer), ('activation', ActivationQuantizer)):
        for name in list_own(base):
            torch.manual_seed(0)
            layer = MODELS.build({'type': 'BinaryLinear', 'in_features': 24, 'out_features': 12, kind: name})
            yield from compare_with_cpu(name, layer, torch.randn(2, 9, 24), device)
    yield from check_sums(device)


def check_sums(device: str) -> Findings:
    """Sums of products of signs are integers and those of the CPU, whatever algorithm computes them."""
    torch.manual_seed(0)
    for channels, size in ((64, 28), (256, 14)):
        layer = MODELS.build(dict(type='BNNConv2d', in_channels=channels, out_channels=64, kernel_size=3, padding=1))
        layer.bias.data.zero_()
        x = torch.randn(2, channels, size, size)
        expected = layer(x).detach()
        found = copy.deepcopy(layer).to(device)(x.to(device)).detach().cpu()
        yield Finding.of(f'sums of {channels * 9} signs', torch.equal(found, expected))


def check_memory_modes(device: str) -> Findings:
    """Check that memory modes change no bit, in blocks of every style."""
    for style in sorted(name for name in BLOCKS.module_dict if name.islower()):
        for dtype in (torch.float32, torch.bfloat16):
            outcomes = {}
            for memory in ('plain', 'sums', 'recompute'):
                torch.manual_seed(0)
                cfg = dict(type=style, in_channels=8, out_channels=16, stride=2)
                block = BLOCKS.build(dict(cfg, conv_cfg=dict(type='ReBNNConv2d', memory=memory)))
                with exact():
                    outcomes[memory] = outcome(block, torch.randn(2, 8, 12, 12), device, dtype)
            expected = outcomes.pop('plain')
            for memory, found in outcomes.items():
                yield differences(f'{style}, {memory}, {dtype}'.replace('torch.', ''), found, expected, 0.0)


def check_compile(device: str) -> Findings:
    """``torch.compile`` of a block: values and gradients of the block itself."""
    kind = torch.device(device).type
    # Compiling for a CPU takes a minute; tracing takes seconds and is most of what can go wrong.
    backend = 'inductor' if kind == 'cuda' else 'aot_eager'
    for method, style in (('ReBNN', 'react'), ('ReBNN', 'hardtanh'), ('ReCU', 'hardtanh'), ('DoReFa', 'relu')):
        torch.manual_seed(0)
        cfg = dict(type=style, in_channels=8, out_channels=8, conv_cfg=dict(type=f'{method}Conv2d'))
        block, x = BLOCKS.build(cfg), torch.randn(2, 8, 8, 8)
        for norm in (block.bn1, block.bn2):
            norm.eval()  # by the batch, a scale before it has no gradient but what rounding leaves
        for dtype in (torch.float32, torch.bfloat16):
            with exact():
                expected = outcome(block, x, device, dtype)
                found = outcome(Compiled(block, backend), x, device, dtype)
            found = {name.replace('block.', ''): value for name, value in found.items()}
            # Under autocast, after the first convolution, a value near zero is of another sign now and then.
            compared = expected if dtype == torch.float32 else {'output': expected['output']}
            yield _near(f'{method}, {style}, {dtype}, {backend}'.replace('torch.', ''), found, compared)
    # On a CPU the tests do that, for every method.
    for name in list_own(BinaryConv2d) if kind == 'cuda' else ['ReBNNConv2d']:
        torch.manual_seed(0)
        layer = MODELS.build(dict(type=name, in_channels=8, out_channels=6, kernel_size=3))
        x = torch.randn(2, 8, 8, 7)
        torch.compiler.reset()
        with exact():
            expected, found = (outcome(module, x, device) for module in (layer, Compiled(layer, backend)))
        found = {key.replace('block.', ''): value for key, value in found.items()}
        yield differences(f'{name}, {backend}', found, expected, 2 * ROUNDING[torch.float32])


def _near(check: str, found: Outcome, expected: Outcome) -> Finding:
    """Compare in the mean: a sum of signs of 0 next to a shortcut that Hardtanh clipped is on its bound, or not."""
    worst = 0.0
    for name, wanted in expected.items():
        ours = found[name]
        if wanted is None or ours is None:
            if wanted is not ours:
                return Finding(check, 'failed', f'{name} is missing')
            continue
        error = float((ours - wanted).norm() / wanted.norm().clamp(min=1e-30))
        if not error < 0.1:
            return Finding(check, 'failed', f'{name} differs by {error:.1e} in the mean')
        worst = max(worst, error)
    return Finding(check, 'passed', f'differs by at most {worst:.1e} in the mean')


class Compiled(nn.Module):
    """A block that is compiled when it is called first."""

    def __init__(self, block: nn.Module, backend: str) -> None:
        super().__init__()
        self.block, self.backend = block, backend

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return torch.compile(self.block, backend=self.backend)(x)


def check_bits(device: str) -> Findings:
    """Triton's kernels against PyTorch's operators, for every type and layout."""
    from rebnn_mm.functional import bits

    kind = torch.device(device).type
    kernels = bits.triton is not None and (kind == 'cuda' or bits.INTERPRETED)
    if not kernels:
        reason = 'triton cannot be imported' if kind == 'cuda' else 'kernels are for a GPU; NumPy packs on a CPU'
        yield Finding('kernels', 'skipped', reason)
    special = torch.tensor([0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf])
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        torch.manual_seed(0)
        x = torch.randn(3, 65, 9, 7) * 1.5
        x.view(-1)[: len(special)] = special
        x = x.to(dtype).to(device)
        for words, values in (
            ('contiguous', x),
            ('channels_last', x.contiguous(memory_format=torch.channels_last)),
            ('a part', x[:, 1:]),
        ):
            signs = bits.unpack(*bits.pack(values), dtype)
            mask = bits.unpack(*bits.pack(values, bits.WITHIN_ONE), torch.bool)
            flags = bits.unpack(*bits.pack(mask, bits.TRUE), torch.bool)
            passed = (
                torch.equal(signs, torch.where(values < 0, -1.0, 1.0).to(dtype))
                and torch.equal(mask, values.abs() <= 1)
                and torch.equal(flags, mask)
            )
            yield Finding.of(f'signs and masks, {dtype}, {words}'.replace('torch.', ''), passed)
    yield from packing_time(device)
