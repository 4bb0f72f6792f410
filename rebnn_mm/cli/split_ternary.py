"""Split a ternary text classifier into a binary one, as BinaryBERT does between its two stages.

    rebnn split-ternary work_dirs/bert_base_binarybert_ternary_sst2/pretrained split_sst2

Each layer with ternary weights becomes two with binary ones, whose sum is the same. Both directories are of Hugging
Face's layout. The new one can be encoder='split_sst2' of a config of the second stage, or be scored as it is; a config
of the second stage that names the ternary directory splits by itself, so training needs no split directory.
"""

from __future__ import annotations

import os

import torch

from rebnn_mm.errors import CommandParser, RebnnError, report_errors
from rebnn_mm.utils.command_line import check_new_folder


@report_errors
def main() -> None:
    parser = CommandParser(description=__doc__)
    parser.add_argument('ternary', help='directory of the ternary classifier')
    parser.add_argument('directory', help='directory to write; must not exist, or be empty')
    args = parser.parse_args()
    check_new_folder(args.directory)
    try:
        from rebnn_mm.models.language.pretrained import load_pretrained, save_pretrained, split_pretrained

        split = split_pretrained(args.ternary)
    except ImportError as error:
        raise RebnnError(str(error)) from error
    save_pretrained(split, args.directory)
    # In float32 a rounding can turn the sign of an input that is nearly 0, which a logit shows.
    ternary, split = load_pretrained(args.ternary).double(), load_pretrained(args.directory).double()
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(ternary.encoder.config.vocab_size, (8, 32), generator=generator)
    inputs = dict(input_ids=ids, attention_mask=torch.ones_like(ids))
    with torch.no_grad():
        difference = (ternary(inputs) - split(inputs)).abs().max()
    print(f'{args.directory}: {", ".join(sorted(os.listdir(args.directory)))}')
    print(f'largest difference of a logit to the ternary classifier, in float64: {float(difference):.2g}')
