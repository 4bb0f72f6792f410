"""The tables of lab/reports/size_and_ops.md: our networks, and the paper's 28 figures next to what counting gives.

python -m lab.paper_costs                                  # print them
python -m lab.paper_costs --update lab/reports/size_and_ops.md    # renew them in the page
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from lab.paper_costs.figures import count_networks
from lab.paper_costs.tables import figures_table, networks_table, write_own_table
from lab.tools.page import renew
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError, report_errors

TABLES = 'own', 'figures', 'networks'


def renew_page(page: Path, tables: Mapping[str, str]) -> str:
    """Give a page's text with these tables in it."""
    try:
        return renew(page.read_text(), tables)
    except ValueError as problem:
        raise RebnnError(str(problem), str(page)) from problem


@report_errors
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--update', type=Path, help='page to renew the tables in, instead of printing them')
    args = parser.parse_args()
    if not (args.update is None or args.update.is_file()):
        raise RebnnError(f'no page at {args.update}')

    if args.update is not None:
        renew_page(args.update, dict.fromkeys(TABLES, ''))  # refuses a page without their places before counting
    tables = dict(zip(TABLES, (write_own_table(), figures_table(count_networks()), networks_table()), strict=True))
    if args.update is None:
        print('\n'.join(tables.values()), end='')
        return
    text = renew_page(args.update, tables)
    with whole_file(args.update) as part:
        part.write_text(text)
    print(f'{args.update}: tables renewed')


if __name__ == '__main__':
    main()
