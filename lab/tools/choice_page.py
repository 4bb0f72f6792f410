"""Renew the table of a page, between its marks of "choice", from what ``rebnn choose --json`` keeps.

python -m lab.tools.choice_page work_dirs/choose.json docs/choose.md
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from lab.tools.page import renew
from rebnn_mm.benchmark.choice import Point, markdown
from rebnn_mm.cli.choose import METRICS, conditions, load_report
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import report_errors


def describe_choice(path: Path) -> str:
    """Make the table of what ``rebnn choose --json`` has written, and the sentence with its conditions."""
    report = load_report(path)
    points = [Point(**entry) for entry in report['points']]
    table = '\n'.join(markdown(points, METRICS.get(report['metric'], report['metric'])))
    return f'{table}\n\n{conditions(report)}\n'


@report_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Read the report and renew the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('report', type=Path, help='file that rebnn choose --json wrote')
    parser.add_argument('page', type=Path, help='Markdown whose table is renewed')
    args = parser.parse_args(arguments)
    text = renew(args.page.read_text(encoding='utf-8'), {'choice': describe_choice(args.report)})
    with whole_file(args.page) as part:
        part.write_text(text, encoding='utf-8')


if __name__ == '__main__':
    main()
