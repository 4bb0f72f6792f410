"""Runs a function in two gloo processes."""

import socket
import time
from collections.abc import Callable
from multiprocessing import set_forkserver_preload
from typing import Any

import torch
from torch import distributed as dist
from torch import multiprocessing as mp

import rebnn_mm  # noqa: F401  # as in conftest.py, for the processes, which do not read it

# Both are forks of a process that has imported what every test needs; importing takes longer than most tests.
set_forkserver_preload(['rebnn_mm', 'mmengine.runner', 'mmdet.models', 'mmpretrain.models'])

PATIENCE = 600
"""Seconds after which processes that do not end are given up, so that a test that hangs fails instead."""


def run(worker: Callable[..., None], *args: Any) -> None:
    """Call ``worker(rank, *args)`` in two processes that share a process group; args and worker can be pickled."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        port = probe.getsockname()[1]
    context = mp.start_processes(_entry, (port, worker, args), nprocs=2, join=False, start_method='forkserver')
    end = time.monotonic() + PATIENCE
    while not context.join(timeout=5):
        if time.monotonic() > end:
            for process in context.processes:
                process.kill()
            raise TimeoutError(f'{worker.__name__} did not end in both processes within {PATIENCE} seconds')


def _entry(rank: int, port: int, worker: Callable[..., None], args: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group('gloo', init_method=f'tcp://127.0.0.1:{port}', rank=rank, world_size=2)
    worker(rank, *args)
    # One process must not take its side of the connection away while the other still uses it.
    dist.barrier()
    dist.destroy_process_group()
