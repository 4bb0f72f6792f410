"""Try thirty stock models of mmdet and mmpretrain: which become binary, train, export, and how fast the file is.

python -m lab.tools.compatibility --update lab/reports/compatibility.md
python -m lab.tools.compatibility --only resnet18 --only ssd300 --again

Each model is tried in a process of its own, with one thread, and its row is written to --json as soon as it is there;
a second call goes on where the first one ended. Weights are random: what becomes of accuracy is not asked here.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import signal
import sys
import time
import warnings
from contextlib import redirect_stdout
from datetime import datetime, timezone
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

os.environ.setdefault('OMP_NUM_THREADS', '1')

import torch

from lab.tools.page import renew
from lab.tools.stock_models import STOCK, check_model, markdown, stock_config, versions
from rebnn_mm.deploy.measurement import describe_cpu, kernels
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.utils.command_line import check_writable

LIMIT = 900
"""Seconds of processor time for one model."""

PATIENCE = 20
"""How many times as long it may take where other programs run."""


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', action='append', default=[], metavar='PART', help='models whose name has this in it')
    parser.add_argument('--again', action='store_true', help='try models again that have a row')
    parser.add_argument(
        '--limit', type=int, default=LIMIT, help='seconds of processor time for one model; default: %(default)s'
    )
    parser.add_argument('--json', type=Path, default=Path('work_dirs/compatibility.json'), help='default: %(default)s')
    parser.add_argument('--update', type=Path, metavar='PAGE', help='Markdown whose table is renewed')
    return parser.parse_args()


@report_errors
def main() -> None:
    args = parse_args()
    check_writable(args.json)
    wanted = [name for name in STOCK if not args.only or any(part in name for part in args.only)]
    if not wanted:
        raise RebnnError(
            f'--only {" ".join(args.only)} fits none of {", ".join(name.rpartition("/")[2] for name in STOCK)}.'
        )
    try:
        page = args.update.read_text(encoding='utf-8') if args.update else ''
        rows: dict[str, Any] = json.loads(args.json.read_text()) if args.json.is_file() else {}
        if not isinstance(rows, dict) or set(rows) - set(STOCK):
            raise ValueError(f'{args.json} holds other than rows of this program: name another, or remove it.')
        if args.update:
            renew(page, {'compatibility': ''})
    except (ValueError, OSError) as error:
        raise RebnnError(str(error)) from error
    torch.set_num_threads(1)
    left = [name for name in wanted if args.again or name not in rows]
    start = time.monotonic()
    for number, name in enumerate(left):
        spent = time.monotonic() - start
        rest = f', about {spent / number * (len(left) - number) / 60:.0f} minutes left' if number else ''
        say(f'[{number + 1}/{len(left)}] {name}{rest}')
        rows[name] = {**try_model(name, args.limit), 'date': f'{datetime.now(timezone.utc):%Y-%m-%d}'}
        with whole_file(args.json) as part:
            part.write_text(json.dumps(rows, indent=2, ensure_ascii=False) + '\n', encoding='utf-8')
    table = '\n'.join(markdown(rows, list(STOCK))) + '\n'
    if args.update:
        with whole_file(args.update) as part:
            part.write_text(renew(page, {'compatibility': f'{table}\n{conditions(rows)}\n'}), encoding='utf-8')
    print(table, end='')


def try_model(name: str, limit: int) -> dict[str, Any]:
    """The row of a model, from a process that a model of another library may bring down."""
    context = multiprocessing.get_context('fork')  # which has imported everything already
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=try_one, args=(name, theirs, limit), daemon=True)
    process.start()
    theirs.close()
    end, row = time.monotonic() + PATIENCE * limit, {'size': STOCK[name]}
    stopped = f'stopped after {limit} seconds of processor time'
    while (rest := end - time.monotonic()) > 0 and ours.poll(rest):
        try:
            found = ours.recv()
        except EOFError:
            process.join()
            if process.exitcode != -signal.SIGXCPU:
                stopped = f'its process ended with code {process.exitcode}'
            break
        if isinstance(found, dict):
            row, stopped = found, ''
            break
        say(f'    {found}')
    process.kill()
    process.join()
    return {**row, 'stopped': stopped} if stopped else row


def try_one(name: str, answer: Connection, limit: int) -> None:
    """In the other process: sends which step begins, then the row."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    warnings.simplefilter('ignore')
    with open(os.devnull, 'w') as nothing, redirect_stdout(nothing):  # what the libraries print of a training
        real, cfg = stock_config(name, STOCK[name])
        answer.send(check_model(real, cfg, STOCK[name], answer.send))


def conditions(rows: dict[str, Any]) -> str:
    """Describe the conditions of the measurement in a sentence."""
    dates = sorted({row['date'] for row in rows.values()})
    cpu = describe_cpu(None, Path('/'))
    name = cpu['cpuinfo'].get('model name', cpu['machine'])
    what = ', '.join(f'{package} {version}' for package, version in versions().items())
    when = ' to '.join(dict.fromkeys((dates[0], dates[-1])))
    return (
        f'Measured {when} by `python -m lab.tools.compatibility`: {name}, kernels {kernels()}, one thread, batch 1, '
        f'medians of processor time in turns; {what}.'
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == '__main__':
    main()
