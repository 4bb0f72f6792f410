"""Steps of training on a device: the rule, loss scaling, waiting for values, several processes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from rebnn_mm.engine import MethodDriver, ResilientGradient
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.methods import ReBNNConv2d
from rebnn_mm.methods.rbnn import RBNNWeight
from rebnn_mm.models.backbones import BinaryResNet

from .finding import Finding, Findings, Outcome, differences, exact, list_own

STEPS_ROUNDING = 1e-4
"""The same after five steps of training in float32."""


class SmallNet(nn.Module):
    """A convolution and a linear layer of ReBNN without a norm, for steps that are compared."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.conv = ReBNNConv2d(8, 8, 3, padding=1, bias=False, **options)
        self.linear = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of (N, 8, H, W)."""
        return self.linear(self.conv(x).tanh().mean(dim=(2, 3)))


def train_steps(
    options: Mapping[str, Any],
    device: str,
    scale: float | None = None,
    dtype: torch.dtype = torch.float32,
    backend: str | None = None,
) -> Outcome:
    """State and counts after five steps of a small network with the resilient gradient.

    Args:
        options: those of ReBNN's layer.
        device: where the steps are done.
        scale: first scale of the loss, of which the third step is an overflow; None for no scaler.
        dtype: of autocast; float32 for none.
        backend: what compiles the rule's part of the steps; None for no compiler.
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
    if backend is not None:
        resilient.compile(backend=backend)
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
            expected = train_steps(options, 'cpu')
            yield differences(f'five steps, {words}', train_steps(options, device), expected, STEPS_ROUNDING)
            scaled = train_steps(options, device, scale=2.0**16)
            yield differences(f'the same with a scaled loss, {words}', scaled, expected, STEPS_ROUNDING)
            backend = 'inductor' if torch.device(device).type == 'cuda' else 'aot_eager'
            compiled = train_steps(options, device, backend=backend)
            yield differences(f'the same compiled, {words}', compiled, expected, STEPS_ROUNDING)
    for dtype in (torch.bfloat16, torch.float16):
        state = train_steps({}, device, 2.0**10 if dtype == torch.float16 else None, dtype)
        finite = all(bool(value.isfinite().all()) for value in state.values() if value is not None)
        yield Finding.of(f'five steps under {dtype} stay finite'.replace('torch.', ''), finite)
    for name in list_own(BinaryConv2d):
        with exact():
            yield differences(
                f'a step of {name} with its driver', _drive(name, device), _drive(name, 'cpu'), STEPS_ROUNDING
            )
    yield _check_rotation(device)


def _drive(name: str, device: str) -> Outcome:
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
        self.backbone = BinaryResNet(18, base_channels=base_channels, block=block, conv_cfg=conv)
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
