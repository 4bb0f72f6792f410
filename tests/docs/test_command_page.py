"""The page of the commands has what they print for --help today."""

import sys

import pytest

from tools.docs.commands import PAGE, write_page


@pytest.mark.skipif(sys.version_info >= (3, 13), reason='argparse writes its help in another form')
def test_the_page_is_current():
    assert PAGE.read_text() == write_page(), 'run: python -m tools.docs.commands'
