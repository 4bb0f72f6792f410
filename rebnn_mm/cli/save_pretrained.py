"""Write a checkpoint as a directory of Hugging Face's layout: config, weights, and card or tokenizer.

    rebnn save-pretrained configs/glue/rebnn.py work_dirs/bert_base_rebnn_sst2/epoch_10.pth bert_base_rebnn_sst2
    rebnn save-pretrained rebnn_mm::bccd/faster_rcnn_r18_rebnn_bccd.py epoch_24.pth cells --push owner/cells

To load a text classifier, use encoder='bert_base_rebnn_sst2' in a config or rebnn_mm.models.language.load_pretrained;
transformers' AutoModelForSequenceClassification.from_pretrained gives a full-precision model of the latent weights.
To load a detector or classifier of images, use rebnn_mm.export.hub.HubModel.from_pretrained. To share a packed file,
use rebnn push.
"""

from __future__ import annotations

import argparse
import os

from mmengine.registry import init_default_scope
from mmengine.runner import load_checkpoint

from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.registry import MODELS
from rebnn_mm.utils.checkpoint import check_checkpoint, check_checkpoint_file
from rebnn_mm.utils.command_line import check_sections, config_file
from rebnn_mm.utils.config_file import read_config
from rebnn_mm.utils.data_files import type_name


@report_errors
def main() -> None:
    parser = CommandParser(description=__doc__)
    parser.add_argument('config', type=config_file, help='config the checkpoint was trained with')
    parser.add_argument('checkpoint', help='checkpoint file')
    parser.add_argument('directory', help='directory to write; must not exist, or be empty')
    parser.add_argument('--push', metavar='OWNER/NAME', help='upload the directory of a model of images to the hub')
    args = parser.parse_args()
    cfg = read_config(args.config)
    check_sections(cfg, ['model'])
    check_checkpoint_file(args.checkpoint)
    if os.path.exists(args.directory) and (not os.path.isdir(args.directory) or os.listdir(args.directory)):
        raise RebnnError(f'{args.directory} exists already. Give the name of a new directory.')
    if type_name(cfg.model) != 'TextClassifier':
        save_image_model(args)
        return
    if args.push:
        raise RebnnError('--push uploads models of images; upload this directory by hf upload.')
    init_default_scope(cfg.get('default_scope', 'mmengine'))
    from rebnn_mm.models.language import save_pretrained

    try:
        model = MODELS.build(cfg.model)
    except ImportError as error:
        raise RebnnError(str(error)) from error
    check_checkpoint(model, args.checkpoint)
    load_checkpoint(model, args.checkpoint, map_location='cpu', logger='silent')
    save_pretrained(model, args.directory)
    print(f'{args.directory}: {", ".join(sorted(os.listdir(args.directory)))}')


def save_image_model(args: argparse.Namespace) -> None:
    """Write a detector or classifier of images, and upload it if that is asked for."""
    try:
        from rebnn_mm.export.hub import HubModel
    except ModuleNotFoundError as error:
        raise RebnnError(f'{error.name} is not installed', fix="Run: pip install 'rebnn_mm[hub]'") from error
    from rebnn_mm.deploy.hub import explain_hub_errors

    model = HubModel.from_checkpoint(args.config, args.checkpoint)
    model.save_pretrained(args.directory)
    print(f'{args.directory}: {", ".join(sorted(os.listdir(args.directory)))}')
    if args.push:
        with explain_hub_errors(f'--push {args.push}', args.push):
            print(model.push_to_hub(args.push))
