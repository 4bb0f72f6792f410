"""Write a checkpoint of a text classifier as a directory of Hugging Face's layout, with config and tokenizer.

    rebnn save-pretrained configs/glue/rebnn.py \
        work_dirs/bert_base_rebnn_sst2/epoch_10.pth bert_base_rebnn_sst2

Others load it as encoder='bert_base_rebnn_sst2' of a config, by rebnn_mm.models.language.load_pretrained, or, as
real-valued model with the latent weights, by transformers' AutoModelForSequenceClassification.from_pretrained.
"""

from __future__ import annotations

import argparse
import os

from mmengine.config import Config
from mmengine.registry import init_default_scope
from mmengine.runner import load_checkpoint

from rebnn_mm.registry import MODELS
from rebnn_mm.utils.checkpoint_check import mismatched_checkpoint, missing_checkpoint
from rebnn_mm.utils.command_line import config_file, stop_if
from rebnn_mm.utils.config_file import missing_config


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('config', type=config_file, help='config the checkpoint was trained with')
    parser.add_argument('checkpoint', help='checkpoint file')
    parser.add_argument('directory', help='directory to write; must not exist, or be empty')
    args = parser.parse_args()
    stop_if(missing_config(args.config) or missing_checkpoint(args.checkpoint))
    if os.path.exists(args.directory) and (not os.path.isdir(args.directory) or os.listdir(args.directory)):
        stop_if(f'{args.directory} exists already. Give the name of a new directory.')
    cfg = Config.fromfile(args.config)
    init_default_scope(cfg.get('default_scope', 'mmengine'))
    from rebnn_mm.models.language import TextClassifier, save_pretrained

    try:
        model = MODELS.build(cfg.model)
    except (ValueError, ImportError) as error:
        stop_if(str(error))
    if not isinstance(model, TextClassifier):
        stop_if(f'{args.config}: its model is a {type(model).__name__}, not a rebnn_mm.TextClassifier.')
    stop_if(mismatched_checkpoint(model, args.checkpoint))
    load_checkpoint(model, args.checkpoint, map_location='cpu')
    save_pretrained(model, args.directory)
    print(f'{args.directory}: {", ".join(sorted(os.listdir(args.directory)))}')
