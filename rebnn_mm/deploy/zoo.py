"""The trained models of the package: ``rebnn zoo`` lists them, ``zoo:<name>`` names one wherever a file is asked for.

rebnn zoo
rebnn zoo blood-cells-tiny
rebnn run zoo:blood-cells-tiny zoo:BloodImage_00021.jpg --out painted.png
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from ..errors import CommandParser, report_errors
from .errors import ModelFileError

SCHEME = 'zoo:'
FOLDER = Path(__file__).resolve().parents[1] / 'zoo'
"""Each model is a file ``<name>.onnx`` here; ``cards.json`` says of each what it is."""

Card = Mapping[str, Any]

ROWS = {
    'finds': 'finds',
    'network': 'network',
    'scores': 'score',
    'of': 'scored on',
    'recipe': 'over seeds',
    'data': 'data',
    'photo': 'sample image',
    'config': 'config',
    'trained': 'trained by',
    'seed': 'seed',
    'training': 'training',
    'packed': 'packed by',
    'scored': 'scored by',
    'time': 'time',
    'limits': 'limits',
}
"""Rows of a card in their order, with titles; ``name`` and ``bytes`` are in its heading."""


@cache
def cards() -> tuple[Card, ...]:
    """List the models of the zoo."""
    return tuple(json.loads((FOLDER / 'cards.json').read_text(encoding='utf-8')))


def in_zoo(name: str | PathLike[str]) -> bool:
    """Whether it names something of the zoo."""
    return fspath(name).startswith(SCHEME)


def zoo_path(name: str | PathLike[str]) -> Path:
    """The file of a model or a sample image of the zoo."""
    wanted = fspath(name).removeprefix(SCHEME)
    known = {card['name']: f'{card["name"]}.onnx' for card in cards()}
    known.update({card['sample']: card['sample'] for card in cards()})
    if wanted not in known:
        raise ModelFileError(f'the zoo has no {wanted!r}, only {", ".join(known)}{like_zoo(wanted)}')
    return FOLDER / known[wanted]


def like_zoo(name: str) -> str:
    """Ask for the model or the sample image of the zoo that is nearly called so; '' if none is."""
    known = [card[key] for key in ('name', 'sample') for card in cards()]
    close = difflib.get_close_matches(name, known, n=1)
    return f'; did you mean {SCHEME}{close[0]}?' if close else ''


def card_of(path: str | bytes) -> Card:
    """The card of a model's file in the zoo; an empty one for any other file."""
    return next((card for card in cards() if str(FOLDER / f'{card["name"]}.onnx') == path), {})


def zoo_lines() -> list[str]:
    """The list of models as a table."""
    rows = [['name', 'MB', 'score', 'finds']]
    rows += [[card['name'], megabytes(card), score_text(card['scores']), card['finds']] for card in cards()]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ['  '.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    first = cards()[0]
    return [*lines, '', f'rebnn run {SCHEME}{first["name"]} {SCHEME}{first["sample"]} --out painted.png']


@report_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """The command ``rebnn zoo``."""
    parser = CommandParser(prog='rebnn zoo', description=__doc__)
    parser.add_argument('name', nargs='?', help='show the card of this model')
    parser.add_argument('--path', action='store_true', help='print where the file is, instead of its card')
    parser.add_argument('--json', action='store_true', help='print the cards, or the one card, as JSON')
    args = parser.parse_args(arguments)
    print('\n'.join(_find_asked(args)))


def _find_asked(args: argparse.Namespace) -> list[str]:
    if args.name is None:
        return [json.dumps(list(cards()), indent=2)] if args.json else zoo_lines()
    path = zoo_path(args.name)
    if args.path:
        return [str(path)]
    card = card_of(str(path))
    if not card:
        raise ModelFileError(f'{path.name} is a sample image, which has no card; --path says where it is')
    if args.json:
        return [json.dumps(card, indent=2)]
    width = max(map(len, ROWS.values())) + 2
    lines = [f'{title:<{width}}{text}' for title, text in card_entries(card)]
    return [f'{SCHEME}{card["name"]}, {megabytes(card)} MB', '', *lines]


def card_entries(card: Card, code: str = '') -> Iterator[tuple[str, str]]:
    """Return title and text of each row of a card, in the order of :data:`ROWS`."""
    for key, title in ROWS.items():
        value = card.get(key)
        if value is None or value == '':
            continue
        if key == 'scores':
            yield title, score_text(value)
        elif key in ('trained', 'packed', 'scored'):
            yield title, f'{code}{value}{code}'
        elif key == 'data':
            where = f' (`{value["licence_file"]}`)' if 'licence_file' in value else ''
            yield title, ', '.join(value[part] for part in ('name', 'url', 'licence') if part in value) + where
        else:
            yield title, str(value)


def megabytes(card: Card) -> str:
    """Size of a model's file."""
    return f'{card["bytes"] / 1e6:.2f}'


def score_text(scores: Mapping[str, float]) -> str:
    """Scores with their names."""
    return ', '.join(f'{name} {value:.1f}' for name, value in scores.items())
