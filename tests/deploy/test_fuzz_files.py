"""A few hundred damaged and hostile files; ``fuzz_files.py`` runs as many as one likes."""

import pytest

from . import fuzz_files, models


def check(count, use_library):
    counts = fuzz_files.fuzz(models.sealed_files(), count, seed=0, use_library=use_library)
    assert sum(counts.values()) == count
    assert not [outcome for _, outcome in counts if outcome in fuzz_files.BAD], counts
    assert counts['damaged', 'refused'] > count / 3 and counts['hostile', 'refused'] > count / 6
    # the hostile ones get as far as to be run
    assert counts['hostile', 'an answer'] + counts['hostile', 'same answer'] > count / 30


def test_no_file_ends_badly():
    check(200, use_library=False)


@pytest.mark.usefixtures('library')
def test_no_file_ends_badly_with_the_library():
    check(200, use_library=True)
