"""The tables of lab/reports/size_and_ops.md: our networks, and the paper's 28 figures beside what counting gives.

python -m lab.paper_costs                                  # print them
python -m lab.paper_costs --update lab/reports/size_and_ops.md    # renew them in the page
"""

from __future__ import annotations

import argparse
from pathlib import Path

from lab.paper_costs.figures import counted_networks
from lab.paper_costs.tables import figures_table, networks_table, own_table
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError, report_errors
from rebnn_mm.utils.page import renewed


@report_errors
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--update', type=Path, help='page to renew the tables in, instead of printing them')
    args = parser.parse_args()
    if not (args.update is None or args.update.is_file()):
        raise RebnnError(f'no page at {args.update}')

    tables = {'own': own_table(), 'figures': figures_table(counted_networks()), 'networks': networks_table()}
    if args.update is None:
        print('\n'.join(tables.values()), end='')
        return
    try:
        page = renewed(args.update.read_text(), tables)
    except ValueError as problem:
        raise RebnnError(str(problem), str(args.update)) from problem
    with whole_file(args.update) as part:
        part.write_text(page)
    print(f'{args.update}: tables renewed')


if __name__ == '__main__':
    main()
