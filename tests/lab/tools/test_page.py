"""Pages of which a command writes a part."""

import pytest

from lab.tools.page import renew


def test_only_what_is_between_the_lines_changes():
    page = 'before\n<!-- begin a -->\nold\nolder\n<!-- end a -->\nafter\n<!-- begin b -->\n<!-- end b -->\n'
    found = renew(page, {'a': 'new \\1\n', 'b': 'x\n'})
    assert found == 'before\n<!-- begin a -->\nnew \\1\n<!-- end a -->\nafter\n<!-- begin b -->\nx\n<!-- end b -->\n'
    assert renew(found, {'a': 'new \\1\n', 'b': 'x\n'}) == found


@pytest.mark.parametrize('page', ['nothing', '<!-- begin a -->\n', '<!-- begin a -->\n<!-- end a -->\n' * 2])
def test_lines_that_are_missing_or_there_twice(page):
    with pytest.raises(ValueError, match='^the page needs the lines <!-- begin a --> and <!-- end a -->, once each'):
        renew(page, {'a': ''})
