"""Whether a device computes what a CPU does: layers, steps, compiled blocks, what is kept; for tools/check_gpu.py.

A part is a function of the device that yields what it finds, check by check. The device may be the CPU itself:
autocast, ``channels_last``, memory modes and steps are then still compared with the plain pass.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..engine import MethodDriver, ResilientGradient
from ..layers import BinaryConv2d, BinaryLinear
from ..methods import ReBNNConv2d
from ..methods.rbnn import RBNNWeight
from ..models.backbones import ReBNNResNet
from ..quantizers import ActivationQuantizer, MissingHookWarning, WeightQuantizer
from ..registry import BLOCKS, registered_classes

ROUNDING = {torch.float32: 2e-5, torch.bfloat16: 6e-2, torch.float16: 2e-2}
"""Largest difference from float32 on a CPU, of the largest magnitude of a tensor: other orders of the same sums, and
under autocast the rounding of outputs and gradients to 8 or 11 bits."""

STEPS_ROUNDING = 1e-4
"""The same after five steps of training in float32."""


class Finding(NamedTuple):
    """What one check found.

    Attributes:
        check: what was looked at.
        state: ``'passed'``, ``'failed'``, ``'skipped'`` or ``'measured'``.
        detail: why, in a few words.
        numbers: what was measured.
    """

    check: str
    state: str
    detail: str = ''
    numbers: Mapping[str, float] = {}

    @classmethod
    def of(cls, check: str, passed: bool, detail: str = '') -> Finding:
        """Passed or failed."""
        return cls(check, 'passed' if passed else 'failed', detail)


Findings = Iterator[Finding]
Outcome = dict[str, Tensor | None]


def differences(check: str, found: Outcome, expected: Outcome, tolerance: float) -> Finding:
    """Compare tensors by name; a missing, misshapen or non-finite one fails.

    Args:
        check: name of the check.
        found: what the device gives.
        expected: what it should give.
        tolerance: largest difference, of the largest magnitude of the expected tensor; 0 for the same bits.

    Example:
        >>> x = torch.tensor([1.0, 2.0])
        >>> differences('a', dict(y=x), dict(y=x + 1e-6), tolerance=1e-5).state
        'passed'
        >>> differences('a', dict(y=x), dict(y=x + 1e-4), tolerance=1e-5).detail
        'y differs by 3.3e-05 of its largest value, more than 1e-05'
    """
    worst, where = 0.0, ''
    for name, wanted in expected.items():
        ours = found.get(name)
        if wanted is None and ours is None:
            continue
        if wanted is None or ours is None or ours.shape != wanted.shape:
            return Finding(check, 'failed', f'{name} is missing or has another shape')
        error = (ours.double() - wanted.double()).abs().amax().item()
        if error != 0:
            error /= max(wanted.double().abs().amax().item(), 1e-30)
        if math.isnan(error) or error > worst:
            worst, where = math.inf if math.isnan(error) else error, name
    if worst <= tolerance:
        return Finding(check, 'passed', f'largest difference {worst:.1e}')
    return Finding(check, 'failed', f'{where} differs by {worst:.1e} of its largest value, more than {tolerance:.0e}')


@contextmanager
def exact(deterministic: bool = True) -> Iterator[None]:
    """Products of float32 in float32, not in TF32, and by algorithms that repeat themselves."""
    cudnn = torch.backends.cudnn
    with cudnn.flags(enabled=True, benchmark=False, deterministic=deterministic, allow_tf32=False):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision('highest')
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)


def outcome(
    module: nn.Module, x: Tensor, device: str, dtype: torch.dtype = torch.float32, channels_last: bool = False
) -> Outcome:
    """Output, gradients and buffers of one training step of a copy of the module, on the CPU.

    Args:
        module: on a CPU.
        x: its input, on a CPU.
        device: where the step is done.
        dtype: of autocast; float32 for none.
        channels_last: whether module and input are laid out so.
    """
    module = copy.deepcopy(module).to(device)
    x = x.detach().to(device, copy=True)
    if channels_last:
        module, x = module.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x.requires_grad_()
    with torch.autocast(torch.device(device).type, dtype, enabled=dtype != torch.float32):
        y = module(x)
    # The same whatever the device, and not the same for all outputs.
    upstream = torch.cos(torch.arange(y.numel(), dtype=torch.float64)).view(y.shape)
    y.backward(upstream.to(y))
    result: Outcome = {'output': y.detach(), 'gradient of the input': x.grad}
    result |= {f'gradient of {name}': parameter.grad for name, parameter in module.named_parameters()}
    result |= dict(module.named_buffers())
    return {name: None if value is None else value.float().cpu() for name, value in result.items()}


def own(base: type[Any]) -> list[str]:
    """The names of this package's registered classes of a kind."""
    return [name for name, cls in registered_classes(base).items() if cls.__module__.startswith('rebnn_mm.')]


def modes(device: str, channels_last: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a layer is tried with: float32, both layouts, both kinds of half precision."""
    yield 'float32', {}
    if channels_last:
        yield 'channels_last', dict(channels_last=True)
        yield 'channels_last, bfloat16', dict(channels_last=True, dtype=torch.bfloat16)
    yield 'bfloat16', dict(dtype=torch.bfloat16)
    yield 'float16', dict(dtype=torch.float16)


def compare_with_cpu(name: str, module: nn.Module, x: Tensor, device: str) -> Findings:
    """A module's training step on the device beside the one on a CPU, in every mode."""
    with exact():
        expected = outcome(module, x, 'cpu')
        for mode, options in modes(device, x.dim() == 4):
            found = outcome(module, x, device, **options)
            # Under autocast not everything is rounded; what comes out differs by the rounding of what goes in.
            yield differences(f'{name}, {mode}', found, expected, ROUNDING[options.get('dtype', torch.float32)])


def check_layers(device: str) -> Findings:
    """Every method's layers and every quantizer, against the CPU."""
    for name in own(BinaryConv2d):
        torch.manual_seed(0)
        layer = MODELS.build(dict(type=name, in_channels=16, out_channels=12, kernel_size=3, padding=1))
        yield from compare_with_cpu(name, layer, torch.randn(2, 16, 8, 7), device)
    for name in own(BinaryLinear):
        torch.manual_seed(0)
        layer = MODELS.build(dict(type=name, in_features=24, out_features=12))
        yield from compare_with_cpu(name, layer, torch.randn(2, 9, 24), device)
    for kind, base in (('weight', WeightQuantizer), ('activation', ActivationQuantizer)):
        for name in own(base):
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
    """What is kept for the backward pass changes no bit, in blocks of every style."""
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


class SmallNet(nn.Module):
    """A convolution and a linear layer of ReBNN without a norm, for steps that are compared."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.conv = ReBNNConv2d(8, 8, 3, padding=1, bias=False, **options)
        self.linear = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of (N, 8, H, W)."""
        return self.linear(self.conv(x).tanh().mean(dim=(2, 3)))


def trained(
    options: Mapping[str, Any], device: str, scale: float | None = None, dtype: torch.dtype = torch.float32
) -> Outcome:
    """State and counts after five steps of a small network with the resilient gradient.

    Args:
        options: those of ReBNN's layer.
        device: where the steps are done.
        scale: first scale of the loss, of which the third step is an overflow; None for no scaler.
        dtype: of autocast; float32 for none.
    """
    torch.manual_seed(0)
    # Weights near zero, some of which flip.
    net = SmallNet(**options)
    net.conv.weight.data = torch.randn_like(net.conv.weight) ** 3 / 4
    batches = torch.randn(5, 16, 8, 6, 6)
    target = torch.randint(0, 3, (16,)).to(device)
    net.to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    resilient = ResilientGradient(net).attach(optimizer)
    kind = torch.device(device).type
    scaler = torch.amp.GradScaler(kind, init_scale=scale or 1.0, enabled=scale is not None, growth_interval=1000)
    for index, batch in enumerate(batches):
        times = [math.inf, 1.0] if scale is not None and index == 2 else [1.0]
        for factor in times:
            optimizer.zero_grad()
            with torch.autocast(kind, dtype, enabled=dtype != torch.float32):
                loss = nn.functional.cross_entropy(net(batch.to(device)).float(), target)
            scaler.scale(loss * factor).backward()
            scaler.step(optimizer)
            scaler.update()
    state: Outcome = {name: value.detach().float().cpu() for name, value in net.state_dict().items()}
    statistics = resilient.statistics()
    state |= {name: torch.tensor(value) for name, value in statistics.items()}
    return state


def check_steps(device: str) -> Findings:
    """The rule around optimizer steps, with and without a scaled loss; every method's schedules and constraints."""
    for options in (
        dict(gamma_bounds=None),
        dict(gamma='max', center='row'),
        dict(gamma=1e-3),
        dict(flip_window=2),
        dict(variant='official'),
    ):
        words = ', '.join(f'{key}={value!r}' for key, value in options.items())
        with exact():
            expected = trained(options, 'cpu')
            yield differences(f'five steps, {words}', trained(options, device), expected, STEPS_ROUNDING)
            scaled = trained(options, device, scale=2.0**16)
            yield differences(f'the same with a scaled loss, {words}', scaled, expected, STEPS_ROUNDING)
    for dtype in (torch.bfloat16, torch.float16):
        state = trained({}, device, 2.0**10 if dtype == torch.float16 else None, dtype)
        finite = all(bool(value.isfinite().all()) for value in state.values() if value is not None)
        yield Finding.of(f'five steps under {dtype} stay finite'.replace('torch.', ''), finite)
    for name in own(BinaryConv2d):
        with exact():
            yield differences(
                f'a step of {name} with its driver', _driven(name, device), _driven(name, 'cpu'), STEPS_ROUNDING
            )
    yield _check_rotation(device)


def _driven(name: str, device: str) -> Outcome:
    torch.manual_seed(0)
    layer = MODELS.build(dict(type=name, in_channels=8, out_channels=6, kernel_size=3)).to(device)
    x = torch.randn(4, 8, 6, 6).to(device)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    driver = MethodDriver(layer).attach(optimizer)
    driver.set_progress(0.5)
    layer(x).square().mean().backward()
    optimizer.step()
    return {key: value.detach().float().cpu() for key, value in layer.state_dict().items()}


def _check_rotation(device: str) -> Finding:
    torch.manual_seed(0)
    weight = torch.randn(8, 4, 3, 3).to(device)
    quantizer = RBNNWeight(tuple(weight.shape)).to(device)
    quantizer.begin_epoch(weight)
    product = quantizer.left.T @ quantizer.left
    off = (product - torch.eye(len(product), device=device)).abs().max().item()
    return Finding.of("RBNN's rotation at the begin of an epoch is orthogonal", off < 1e-5, f'off by {off:.1e}')


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
            norm.eval()  # by the batch, a scale in front of it has no gradient but what rounding leaves
        for dtype in (torch.float32, torch.bfloat16):
            with exact():
                expected = outcome(block, x, device, dtype)
                found = outcome(Compiled(block, backend), x, device, dtype)
            found = {name.replace('block.', ''): value for name, value in found.items()}
            check = f'{method}, {style}, {dtype}, {backend}'.replace('torch.', '')
            if dtype == torch.float32:
                yield differences(check, found, expected, 2 * ROUNDING[dtype])
            else:
                yield _near(check, found['output'], expected['output'])


def _near(check: str, found: Tensor | None, expected: Tensor | None) -> Finding:
    """Compare in the mean: rounded otherwise, a value near zero is of another sign behind the first convolution."""
    assert found is not None and expected is not None
    error = float((found - expected).norm() / expected.norm())
    return Finding.of(check, error < 0.1, f'differs by {error:.1e} in the mean')


class Compiled(nn.Module):
    """A block that is compiled when it is called first."""

    def __init__(self, block: nn.Module, backend: str) -> None:
        super().__init__()
        self.block, self.backend = block, backend

    def forward(self, x: Tensor) -> Tensor:
        """Of the block."""
        return torch.compile(self.block, backend=self.backend)(x)


class Waits(TorchDispatchMode):
    """Refuses operators that make the host wait for the device: values that Python asks for, and copies to a CPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        if name in ('_local_scalar_dense', 'nonzero', 'equal', 'unique', '_unique2', 'masked_select'):
            raise RuntimeError(f'the step waits for the device in {name}')
        return func(*args, **(kwargs or {}))


class Classifier(nn.Module):
    """ReBNN ResNet-18 of ImageNet's form and a linear layer, as in training."""

    def __init__(self, block: str, base_channels: int = 64, **options: Any) -> None:
        super().__init__()
        conv = dict(type='ReBNNConv2d', **options)
        self.backbone = ReBNNResNet(18, base_channels=base_channels, block=block, conv_cfg=conv)
        self.head = nn.Linear(8 * base_channels, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of images."""
        return self.head(self.backbone(x)[-1].mean(dim=(2, 3)))


def check_sync(device: str, build: Callable[..., nn.Module] = Classifier) -> Findings:
    """No step of training waits for the device, from the third one on: earlier ones may look at values once."""
    kind = torch.device(device).type
    on_gpu = kind == 'cuda'
    for block, dtype, memory in (
        ('react', torch.float32, 'sums'),
        ('hardtanh', torch.bfloat16, 'sums'),
        ('react', torch.bfloat16, 'recompute'),
    ):
        check = f'ResNet-18, {block}, {dtype}, {memory}'.replace('torch.', '')
        torch.manual_seed(0)
        net = build(block, 64 if on_gpu else 8, memory=memory).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        ResilientGradient(net).attach(optimizer)
        x, target = torch.randn(4, 3, 64, 64).to(device), torch.zeros(4, dtype=torch.long).to(device)

        def step() -> None:
            optimizer.zero_grad()  # noqa: B023  called within this round
            with torch.autocast(kind, dtype, enabled=dtype != torch.float32):  # noqa: B023
                loss = nn.functional.cross_entropy(net(x).float(), target)  # noqa: B023
            loss.backward()
            optimizer.step()  # noqa: B023

        step()
        step()
        if on_gpu:
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode('error')
        try:
            with Waits():
                step()
        except RuntimeError as error:
            yield Finding(check, 'failed', str(error).partition('\n')[0])
        else:
            yield Finding(check, 'passed')
        finally:
            if on_gpu:
                torch.cuda.set_sync_debug_mode('default')


def check_processes(device: str) -> Findings:
    """Two processes train as one with the batch of both does, by DDP: NCCL on two cards, gloo on a CPU."""
    on_gpu = torch.device(device).type == 'cuda'
    check = 'two processes, ' + ('NCCL' if on_gpu else 'gloo')
    if on_gpu and torch.cuda.device_count() < 2:
        yield Finding(check, 'skipped', f'needs two cards; there is {torch.cuda.device_count()}')
        return
    with exact():
        alone = _ddp_steps(None, device)
    context = torch.multiprocessing.get_context('spawn')
    queue = context.SimpleQueue()
    torch.multiprocessing.start_processes(
        _ddp_process, (torch.device(device).type, _free_port(), queue), nprocs=2, start_method='spawn'
    )
    states = dict(queue.get() for _ in range(2))
    both: list[Outcome] = [{name: torch.tensor(value) for name, value in states[rank].items()} for rank in (0, 1)]
    yield differences('weights and gamma are the same in both', both[1], both[0], 0.0)
    yield differences(f'{check}, against one', both[0], alone, STEPS_ROUNDING)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return int(probe.getsockname()[1])


def _ddp_process(rank: int, kind: str, port: int, queue: Any) -> None:
    from torch import distributed

    torch.set_num_threads(1)
    device = f'cuda:{rank}' if kind == 'cuda' else 'cpu'
    if kind == 'cuda':
        torch.cuda.set_device(rank)
    address = f'tcp://127.0.0.1:{port}'
    distributed.init_process_group('nccl' if kind == 'cuda' else 'gloo', init_method=address, rank=rank, world_size=2)
    with exact():
        state = _ddp_steps(rank, device)
    queue.put((rank, {name: value.tolist() for name, value in state.items() if value is not None}))
    distributed.barrier()
    distributed.destroy_process_group()


def _ddp_steps(rank: int | None, device: str) -> Outcome:
    torch.manual_seed(0)
    net: nn.Module = SmallNet().to(device)
    batches, target = torch.randn(3, 8, 8, 6, 6), torch.arange(8) % 3
    if rank is not None:
        net = nn.parallel.DistributedDataParallel(net, [device] if device.startswith('cuda') else None)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    ResilientGradient(net).attach(optimizer)
    part = slice(None) if rank is None else slice(4 * rank, 4 * rank + 4)
    for batch in batches:
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(batch[part].to(device)), target[part].to(device)).backward()
        optimizer.step()
    return {name.removeprefix('module.'): value.cpu() for name, value in net.state_dict().items()}


def kept_bytes(forward: Callable[[], Any], own_tensors: Iterator[Tensor]) -> int:
    """Bytes that a forward pass keeps for the backward pass, each storage once, without the model's own.

    Example:
        >>> x = torch.ones(10, requires_grad=True)
        >>> kept_bytes(lambda: x.exp(), iter([x]))
        40
    """
    known = {tensor.untyped_storage().data_ptr() for tensor in own_tensors}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        result = forward()
    del result
    return sum(storage.nbytes() for storage in kept.values())


def check_encoder_cost(device: str) -> Findings:
    """Memory and time of a step of a binary BERT (MiniLM's sizes, Bi-Attention) beside the real one."""
    try:
        from transformers import BertConfig, BertForSequenceClassification

        from ..models.language import binarize, install_attention
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
        yield measured(check, numbers, real)


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
    kept = kept_bytes(loss, iter([*model.parameters(), *model.buffers()]))
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


def measured(check: str, numbers: Mapping[str, float], real: Mapping[str, float]) -> Finding:
    """What a variant costs, and how often what its real-valued twin does.

    Example:
        >>> measured('ReBNN', {'ms': 2.5, 'kept MiB': 1.0}, {'ms': 2.0, 'kept MiB': 2.0}).detail
        '2.5 ms (x 1.25), 1 kept MiB (x 0.50)'
    """
    ratios = {f'{name}, ratio': value / real[name] for name, value in numbers.items() if real.get(name)}
    words = (
        f'{value:g} {name}' + (f' (x {ratios[f"{name}, ratio"]:.2f})' if f'{name}, ratio' in ratios else '')
        for name, value in numbers.items()
    )
    return Finding(check, 'measured', ', '.join(words), {**numbers, **ratios})


def check_bits(device: str) -> Findings:
    """Triton's kernels against PyTorch's operators, for every type and layout."""
    from ..functional import bits

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
            shift = torch.linspace(-1, 1, values.shape[1]).to(device)
            shifted, like = values.float() + shift.view(-1, 1, 1), bits.layout(values)
            signs = bits.unpack_signs(bits.pack(values, bits.NEGATIVE, shift), like, dtype)
            mask = bits.unpack_mask(bits.pack(values, bits.WITHIN_ONE, shift), like)
            flags = bits.unpack_mask(bits.pack(mask, bits.TRUE), bits.layout(mask))
            passed = (
                torch.equal(signs, torch.where(shifted < 0, -1.0, 1.0).to(dtype))
                and torch.equal(mask, shifted.abs() <= 1)
                and torch.equal(flags, mask)
            )
            yield Finding.of(f'signs and masks, {dtype}, {words}'.replace('torch.', ''), passed)
    yield from _packing_time(device)


def _packing_time(device: str) -> Findings:
    """Packing and unpacking a mask beside the comparison and the product that need it."""
    import time

    from ..functional import bits

    on_gpu = torch.device(device).type == 'cuda'
    x = torch.randn(32 if on_gpu else 1, 128, 28, 28, device=device)
    mask, like, packed = x.abs() <= 1, bits.layout(x), bits.pack(x, bits.WITHIN_ONE)

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
        'ms to unpack': milliseconds(lambda: bits.unpack_mask(packed, like)),
        'ms to multiply': milliseconds(lambda: x * mask),
    }
    yield measured(f'a mask of {x.numel()} values', numbers, {})


PARTS: dict[str, Callable[[str], Findings]] = {
    'layers': check_layers,
    'memory': check_memory_modes,
    'steps': check_steps,
    'sync': check_sync,
    'compile': check_compile,
    'processes': check_processes,
    'encoder': check_encoder_cost,
    'bits': check_bits,
}
"""The parts that need no command of their own, by name."""


def run_part(name: str, device: str) -> Findings:
    """Findings of a part; an error ends it with a finding, too.

    Example:
        >>> [finding.state for finding in run_part('sync', 'cpu')]
        ['passed', 'passed', 'passed']
    """
    with warnings.catch_warnings():
        # Layers are tried without the hooks of their methods on purpose.
        warnings.simplefilter('ignore', MissingHookWarning)
        try:
            yield from PARTS[name](device)
        except Exception as error:  # whatever goes wrong on a device is what this looks for
            yield Finding(name, 'failed', f'{type(error).__name__}: {error}'.partition('\n')[0])
