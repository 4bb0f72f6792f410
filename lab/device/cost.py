"""Measure what training costs on a device, in time and in memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from rebnn_mm.engine import ResilientGradient

from .finding import Finding, Findings


def count_kept_bytes(forward: Callable[[], Any], own_tensors: Iterator[Tensor]) -> int:
    """Bytes that a forward pass keeps for the backward pass, each storage once, without the model's own.

    Example:
        >>> x = torch.ones(10, requires_grad=True)
        >>> count_kept_bytes(lambda: x.exp(), iter([x]))
        40
    """
    known = {tensor.untyped_storage().data_ptr() for tensor in own_tensors}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage
        return tensor

    before = _small_integers()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = forward()
    # Selective checkpointing keeps sums in a list of its own, which these hooks do not see.
    sums = {start: size for start, size in _small_integers().items() if start not in before}
    del result
    return sum(storage.nbytes() for start, storage in kept.items() if start not in sums) + sum(sums.values())


def _small_integers() -> dict[int, int]:
    """Bytes of the integer tensors in memory, by where they begin."""
    gc.collect()
    found = [item for item in gc.get_objects() if type(item) is Tensor and item.dtype in (torch.int8, torch.int16)]
    return {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in found}


def check_encoder_cost(device: str) -> Findings:
    """Memory and time of a step of a binary BERT (MiniLM's sizes, Bi-Attention) next to the full-precision one."""
    try:
        from transformers import BertConfig, BertForSequenceClassification

        from rebnn_mm.models.language import binarize, install_attention
    except ImportError as error:
        yield Finding('BERT', 'skipped', f'needs transformers ({error})')
        return
    on_gpu = torch.device(device).type == 'cuda'
    sizes = dict(hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536)
    if not on_gpu:
        sizes = dict(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
    batch, length = (32, 128) if on_gpu else (2, 16)
    real: dict[str, float] = {}
    for variant in ('real', 'sums', 'plain'):
        torch.manual_seed(0)
        model = BertForSequenceClassification(BertConfig(vocab_size=1000, **sizes))
        if variant != 'real':
            linear = dict(type='ReBNNLinear', center='row', memory=variant, activation=dict(type='BinarySign'))
            binarize(model, linear, dict(type='BinaryEmbedding'))
            install_attention(model, dict(type='BinaryAttention'))
        model.to(device).train()
        words = torch.randint(0, 1000, (batch, length)).to(device)
        labels = torch.zeros(batch, dtype=torch.long).to(device)
        numbers = step_cost(model, lambda: model(words, labels=labels).loss, device)  # noqa: B023  called at once
        real = real or numbers
        check = 'BERT, real' if variant == 'real' else f'BERT, ReBNN, {variant}'
        yield compare_cost(check, numbers, real)


def step_cost(model: nn.Module, loss: Callable[[], Tensor], device: str, rounds: int = 10) -> dict[str, float]:
    """Median milliseconds of a step, MiB kept for the backward pass, and on a GPU the MiB at the peak of a step.

    Args:
        model: whose parameters are trained, with the resilient gradient where it has ReBNN layers.
        loss: a forward pass.
        device: where it is.
        rounds: steps that are timed, after two that are not.
    """
    import statistics
    import time

    on_gpu = torch.device(device).type == 'cuda'
    wait = torch.cuda.synchronize if on_gpu else lambda: None
    kept = count_kept_bytes(loss, iter([*model.parameters(), *model.buffers()]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    ResilientGradient(model).attach(optimizer)
    times = []
    for index in range(2 + rounds):
        if on_gpu and index == 2:
            torch.cuda.reset_peak_memory_stats()
        wait()
        start = time.perf_counter()
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
        wait()
        times.append(time.perf_counter() - start)
    cost = {'ms': round(1000 * statistics.median(times[2:]), 2), 'kept MiB': round(kept / 2**20, 2)}
    return {**cost, 'peak MiB': round(torch.cuda.max_memory_allocated() / 2**20, 1)} if on_gpu else cost


def compare_cost(check: str, numbers: Mapping[str, float], real: Mapping[str, float]) -> Finding:
    """Compare the cost of a variant with that of its full-precision counterpart.

    Example:
        >>> compare_cost('ReBNN', {'ms': 2.5, 'kept MiB': 1.0}, {'ms': 2.0, 'kept MiB': 2.0}).detail
        '2.5 ms (x 1.25), 1 kept MiB (x 0.50)'
    """
    ratios = {f'{name}, ratio': value / real[name] for name, value in numbers.items() if real.get(name)}
    words = (
        f'{value:g} {name}' + (f' (x {ratios[f"{name}, ratio"]:.2f})' if f'{name}, ratio' in ratios else '')
        for name, value in numbers.items()
    )
    return Finding(check, 'measured', ', '.join(words), {**numbers, **ratios})


def compare_with_goal(check: str, ratio: float, goal: float) -> Finding:
    """Say PASS, or by how much a step takes longer than it may.

    Example:
        >>> compare_with_goal('ResNet-18', 1.2, 1.5).detail, compare_with_goal('ResNet-18', 1.8, 1.5).detail
        ('PASS: 1.20 times the real step, goal 1.5', 'misses by 20 %: 1.80 times the real step, goal 1.5')
    """
    verdict = 'PASS' if ratio <= goal else f'misses by {100 * (ratio / goal - 1):.0f} %'
    return Finding(check, 'measured', f'{verdict}: {ratio:.2f} times the real step, goal {goal}', {'ratio': ratio})


def packing_time(device: str) -> Findings:
    """Packing and unpacking a mask against the comparison and the product that need it."""
    import time

    from rebnn_mm.functional import bits

    on_gpu = torch.device(device).type == 'cuda'
    x = torch.randn(32 if on_gpu else 1, 128, 28, 28, device=device)
    mask, packed = x.abs() <= 1, bits.pack(x, bits.WITHIN_ONE)

    def milliseconds(run: Callable[[], Any]) -> float:
        run()
        if on_gpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(20):
            run()
        if on_gpu:
            torch.cuda.synchronize()
        return round(50 * (time.perf_counter() - start), 4)

    numbers = {
        'ms to pack': milliseconds(lambda: bits.pack(x, bits.WITHIN_ONE)),
        'ms to compare': milliseconds(lambda: x.abs() <= 1),
        'ms to unpack': milliseconds(lambda: bits.unpack(*packed, torch.bool)),
        'ms to multiply': milliseconds(lambda: x * mask),
    }
    yield compare_cost(f'a mask of {x.numel()} values', numbers, {})
