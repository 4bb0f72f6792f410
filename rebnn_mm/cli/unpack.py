"""Turn a packed model back into a checkpoint: it scores the same in PyTorch, and can be trained further.

    rebnn unpack zoo:blood-cells blood_cells.pth --images demo/blood_cells/images
    rebnn test rebnn_mm::bccd/faster_rcnn_r18_rebnn_taught_bccd.py blood_cells.pth
    rebnn train my_config.py --cfg-options load_from=blood_cells.pth

Latent weights get plus or minus the scaling factor of their channel. A packed file does not contain the statistics of
batch norms; --images measures them. Without them, training would not continue from the file's accuracy.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx
import torch
from mmengine.registry import MODELS

from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.deploy.zoo import cards, in_zoo
from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.command_line import add_options, check_sections, check_writable, config_file, import_scope
from rebnn_mm.utils.config_file import read_config
from rebnn_mm.utils.config_mistake import user_errors


def parse_args() -> argparse.Namespace:
    parser = CommandParser(description=__doc__)
    parser.add_argument('model', help='packed model, zoo:<name> or hf:owner/name')
    parser.add_argument('checkpoint', type=Path, help='checkpoint to write')
    parser.add_argument('--config', type=config_file, help='config of the model; not needed for the zoo')
    parser.add_argument(
        '--images',
        nargs='*',
        metavar='IMAGES',
        help='measure batch norm statistics on these images: files, folders or lists (.txt, one path per line); '
        "if none are given, on the config's training set",
    )
    add_options(parser)
    return parser.parse_args()


@report_errors
def main() -> None:
    args = parse_args()
    from rebnn_mm.deploy.loading import load, locate_model
    from rebnn_mm.export.calibration import CalibrationImages, image_files, training_images
    from rebnn_mm.export.preprocess import read_preprocessing
    from rebnn_mm.export.source import image_size
    from rebnn_mm.export.tasks import task_of, torch_outputs
    from rebnn_mm.export.unpack import fit_norms, unpack

    path = Path(locate_model(args.model))
    metadata = load(path, use_library=False).metadata
    config = args.config or next(
        (config_file(card['config']) for card in cards() if in_zoo(args.model) and card['name'] == path.stem), None
    )
    if config is None:
        raise RebnnError(
            f'which network {path} is, only its config says: give it as --config ({metadata.config} packed it).'
        )
    check_writable(args.checkpoint, inputs=[path, config, *(args.images or [])])
    cfg = read_config(str(config), args.cfg_options)
    check_sections(cfg, ['model'])
    import_scope(cfg)
    try:
        with user_errors(cfg):
            images = None if args.images is None else image_files(args.images) or training_images(cfg)
            model = MODELS.build(cfg.model)
        steps = read_preprocessing(cfg).steps
        left = unpack(model, onnx.load(str(path)), image_size(cfg, steps))
        seen = None
        if images is not None:
            task, examples = task_of(model), CalibrationImages(steps, images)
            seen = fit_norms(model, lambda: (torch_outputs(model, task, example) for example in examples))
        meta = dict(dataset_meta=dict(classes=metadata.classes), cfg=cfg.pretty_text)
        with whole_file(args.checkpoint) as part:
            torch.save(dict(meta=meta, state_dict=model.state_dict()), part)
    except (RebnnError, OSError) as error:
        # images are found by what finds those of the exporter's flag
        raise RebnnError(str(error).replace('int8: ', '--images: '), str(path)) from error
    print(f'{args.checkpoint}: {len(model.state_dict())} tensors from {path.name}, checked against the file')
    if left:
        print(f'not in the file, left as a new model has them: {", ".join(left)}')
    if seen is None:
        print('batch norms have no statistics; to train it on, let them see images: --images FOLDER')
    else:
        print(f'{seen} batch norms have the statistics of the images')
