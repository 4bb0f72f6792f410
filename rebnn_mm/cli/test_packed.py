"""Score a packed file on the test data set of a config, with the config's own evaluator, as rebnn test prints it.

rebnn test-packed configs/bccd/faster_rcnn_r18_rebnn_bccd.py bccd.onnx

Each image goes from the data set into the file the way it does on a board: prepared by rebnn_mm.deploy, run by ONNX
Runtime. Texts go into it as the tokens of the config's test pipeline. PyTorch computes nothing.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from contextlib import ExitStack

from mmengine.evaluator import DumpResults

from rebnn_mm.cli.checks.labels import check_testing
from rebnn_mm.cli.progress import QuietRunner, count, show_progress
from rebnn_mm.deploy import RawModel, TextClassifier, load
from rebnn_mm.deploy.loading import Loaded
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.evaluation.packed_predictor import build_runner, other_preparation
from rebnn_mm.utils.command_line import add_options, check_predictions, config_file, import_scope, load_config
from rebnn_mm.utils.config_mistake import user_errors
from rebnn_mm.utils.score_table import print_scores


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('config', type=config_file, help='config file of mmdet, mmpretrain or GLUE')
    parser.add_argument('model', help='packed file, written by rebnn export')
    parser.add_argument('--threads', type=int, default=1, help='threads for one image; default: %(default)s')
    parser.add_argument('--no-library', action='store_true', help='run without the kernels, slowly')
    parser.add_argument('--out', help='write the predictions to this pickle file')
    parser.add_argument('--work-dir', help='folder for logs and metrics; default: work_dirs/<config name>')
    add_options(parser)
    # one packed file takes one image at a time in one process
    parser.set_defaults(launcher='none', local_rank=0)
    return parser.parse_args()


def load_packed(args: argparse.Namespace) -> Loaded:
    """The file, ready to run. Kernels that are missing end the program: a whole data set would take too long."""
    with warnings.catch_warnings():
        warnings.simplefilter('error', RuntimeWarning)
        try:
            return load(args.model, threads=args.threads, use_library=not args.no_library)
        except RuntimeWarning as warning:
            raise RebnnError(str(warning), fix='--no-library scores it all the same.') from warning


@report_errors
def main() -> None:
    args = parse_args()
    check_predictions(args.out, inputs=[args.config, args.model])
    cfg = load_config(args)
    import_scope(cfg)
    check_testing(cfg)
    packed = load_packed(args)
    with user_errors(cfg), ExitStack() as stack:
        runner = build_runner(cfg, packed, QuietRunner)
        note = None if isinstance(packed, RawModel | TextClassifier) else other_preparation(packed, cfg)
        if note is not None:
            print(note, file=sys.stderr)
        stack.enter_context(show_progress(runner))
        if args.out is not None:
            runner.test_evaluator.metrics.append(DumpResults(out_file_path=args.out))
        scores = runner.test()
    print_scores(scores)
    what = count(len(runner.test_dataloader.dataset), 'text' if isinstance(packed, TextClassifier) else 'image')
    print(f'{what} through {args.model}, {"without" if args.no_library else "with"} our kernels')
