"""Compare the time of a packed text classifier with its full-precision counterpart, both in ONNX Runtime.

python tools/analysis/benchmark_text.py configs/glue/rebnn.py bert.onnx

The full-precision network is that of the config without binarization and with random weights, exported to ONNX and run
with all of ONNX Runtime's optimisations. The two take turns, so that what else the machine does meets both.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from mmengine.config import Config
from mmengine.registry import MODELS, init_default_scope

from rebnn_mm.benchmark.timing import by_operator, node_times
from rebnn_mm.deploy import load
from rebnn_mm.deploy.session import open_session
from rebnn_mm.errors import report_errors
from rebnn_mm.export.tasks import input_names, is_text_classifier, text_graph
from rebnn_mm.utils.command_line import add_options
from rebnn_mm.utils.config_file import read_config


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', help='config of the text classifier')
    parser.add_argument('model', type=Path, help='its packed file, written by tools/export.py')
    parser.add_argument('--lengths', type=int, nargs='+', default=[16, 64, 128], help='tokens; default: %(default)s')
    parser.add_argument('--repeats', type=int, default=30, help='runs of each network; default: %(default)s')
    parser.add_argument('--threads', type=int, default=1, help='threads of ONNX Runtime; default: %(default)s')
    parser.add_argument('--json', type=Path, help='write the numbers to this file, too')
    add_options(parser)
    return parser.parse_args()


def real_network(cfg: Config) -> Any:
    """The config's network without binarization, with random weights."""
    init_default_scope(cfg.get('default_scope') or 'mmengine')
    model = dict(cfg.model, type='rebnn_mm.TextClassifier', binarize=None, attention=None, pretrained=False)
    for key in ('teacher', 'losses', 'label_weight'):
        model.pop(key, None)
    built = MODELS.build(model)
    if not is_text_classifier(built):
        raise ValueError(f'{type(built).__name__} is not a text classifier.')
    return built.eval()


def sessions(real: bytes, packed: Path, threads: int, profile: str | None = None) -> dict[str, Any]:
    """Both networks, each with the options under which it is meant to run; ``profile`` begins the names of traces."""
    traces = {name: profile and f'{profile}_{name}' for name in ('real', 'packed')}
    ours = load(packed, threads=threads).session
    if profile is not None:
        ours = open_session(str(packed), library=True, threads=threads, trace=traces['packed'])
    return {
        'real': open_session(real, library=False, threads=threads, exact=False, trace=traces['real']),
        'packed': ours,
    }


def tokens(names: list[str], length: int, words: int) -> dict[str, np.ndarray]:
    """One text without padding."""
    ids = np.random.default_rng(0).integers(0, words, (1, length))
    inputs = {'input_ids': ids, 'attention_mask': np.ones_like(ids), 'token_type_ids': np.zeros_like(ids)}
    return {name: inputs[name] for name in names}


def medians(
    runs: dict[str, Any], feeds: dict[str, np.ndarray], repeats: int, clock: Callable[[], float]
) -> dict[str, float]:
    """Milliseconds of each network, run in turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(repeats + 2):
        for name, session in runs.items():
            start = clock()
            session.run(None, feeds)
            if turn >= 2:
                times[name].append(1e3 * (clock() - start))
    return {name: statistics.median(values) for name, values in times.items()}


@report_errors
def main() -> None:
    args = parse_args()
    warnings.simplefilter('ignore', FutureWarning)
    cfg = read_config(args.config, args.cfg_options)
    network = real_network(cfg)
    names = input_names(network)
    words = network.encoder.config.vocab_size
    real = text_graph(network).SerializeToString()
    runs = sessions(real, args.model, args.threads)
    print(f'{platform.machine()}, {args.threads} thread(s), ONNX Runtime {onnxruntime.__version__}, '
          f'torch {torch.__version__}; batch 1, medians of {args.repeats} runs in turns, '
          f'{"processor time" if args.threads == 1 else "wall time"}')  # fmt: skip
    # One thread is timed by its own clock, which stands still while other programs have the processor.
    clock = time.thread_time if args.threads == 1 else time.perf_counter
    print(f'{"tokens":>6}  {"real, ms":>9}  {"packed, ms":>10}  {"ratio":>5}')
    found: dict[str, Any] = {}
    for length in args.lengths:
        times = medians(runs, tokens(names, length, words), args.repeats, clock)
        ratio = times['real'] / times['packed']
        found[str(length)] = {**times, 'ratio': ratio}
        print(f'{length:>6}  {times["real"]:>9.2f}  {times["packed"]:>10.2f}  {ratio:>5.1f}', flush=True)
    with tempfile.TemporaryDirectory() as folder:
        length = args.lengths[-1]
        feeds = tokens(names, length, words)
        traced = sessions(real, args.model, args.threads, f'{folder}/trace')
        for name, session in traced.items():
            spent = by_operator(node_times(session, feeds, max(args.repeats // 3, 2)))
            found[f'{name} by operator'] = spent
            text = ', '.join(f'{kind} {ms:.2f}' for kind, ms in list(spent.items())[:8])
            print(f'{name}, ms of one run at {length} tokens by operator: {text}')
    if args.json is not None:
        args.json.write_text(json.dumps(found, indent=2) + '\n')


if __name__ == '__main__':
    main()
