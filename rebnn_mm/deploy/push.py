"""Share a packed model on the Hugging Face hub.

rebnn push cells.onnx owner/cells --card card.json
rebnn push cells.onnx owner/cells --folder cells     # only write what would be uploaded
rebnn run hf:owner/cells photo.jpg --out painted.png
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import CommandParser, report_errors
from .errors import ModelFileError, first_sentence
from .hub import FILE
from .loading import load


@report_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command."""
    parser = CommandParser(prog='rebnn push', description=__doc__)
    parser.add_argument('model', help='packed model, or zoo:<name>')
    parser.add_argument('repo', help='owner/name on the hub')
    parser.add_argument('--card', type=Path, help='JSON with what to say of it, as rebnn zoo <name> --json prints')
    parser.add_argument('--folder', type=Path, help='write the files here and upload nothing')
    parser.add_argument('--private', action='store_true', default=None, help='make a private repository')
    args = parser.parse_args(arguments)
    model, card = load(args.model, use_library=False), None if args.card is None else _read_card(args.card)
    if args.folder is not None:
        model.save_pretrained(args.folder, card)
        print(f'{args.folder}: {FILE}, README.md')
    else:
        print(model.push_to_hub(args.repo, card, private=args.private))


def _read_card(path: Path) -> Mapping[str, Any]:
    try:
        card = json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise ModelFileError(f'--card {path} cannot be read ({first_sentence(error)})') from None
    if not isinstance(card, dict):
        raise ModelFileError(f'--card {path} must hold a JSON object, such as rebnn zoo blood-cells --json prints')
    return card
