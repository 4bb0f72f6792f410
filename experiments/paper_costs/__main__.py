"""The tables of docs/size_and_ops.md: our networks, and the paper's 28 figures beside what counting gives.

python -m experiments.paper_costs                                  # print them
python -m experiments.paper_costs --update docs/size_and_ops.md    # renew them in the page
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from experiments.paper_costs.figures import counted_networks
from experiments.paper_costs.tables import figures_table, networks_table, own_table
from rebnn_mm.utils.command_line import stop_if
from rebnn_mm.utils.whole_file import whole_file

BLOCK = '<!-- {name}: python -m experiments.paper_costs -->\n{text}<!-- end of {name} -->\n'


def updated(page: str, tables: dict[str, str]) -> str:
    """The page with each table between its marks.

    Raises:
        ValueError: the page has no marks for one of them.
    """
    for name, text in tables.items():
        found = re.compile(re.escape(BLOCK).replace(r'\{name\}', name).replace(r'\{text\}', '.*?'), re.DOTALL)
        if not found.search(page):
            start, end = BLOCK.format(name=name, text='').strip().split('\n')
            raise ValueError(f'no place for the table {name!r}. Add the lines {start!r} and {end!r} to the page')
        page = found.sub(lambda _, name=name, text=text: BLOCK.format(name=name, text=text), page)  # type: ignore[misc]
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--update', type=Path, help='page to renew the tables in, instead of printing them')
    args = parser.parse_args()
    stop_if(None if args.update is None or args.update.is_file() else f'no page at {args.update}')

    tables = {'own': own_table(), 'figures': figures_table(counted_networks()), 'networks': networks_table()}
    if args.update is None:
        print('\n'.join(tables.values()), end='')
        return
    try:
        page = updated(args.update.read_text(), tables)
    except ValueError as problem:
        stop_if(f'{args.update}: {problem}.')
    with whole_file(args.update) as part:
        part.write_text(page)
    print(f'{args.update}: tables renewed')


if __name__ == '__main__':
    main()
