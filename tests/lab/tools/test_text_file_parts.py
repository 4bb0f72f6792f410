"""The parts of a packed text classifier are all of its file."""

import pytest

pytest.importorskip('transformers')

from lab.tools.text_file_parts import part_sizes
from rebnn_mm.export.exporter import export
from tests.export.texts import classifier


def test_sizes_add_up(tmp_path):
    data = export(classifier(tmp_path / 'bert', layers=2)).data
    parts = part_sizes(data)
    assert sum(parts.values()) == len(data)
    assert parts['bits of linear layers'] == 2 * (4 * 32 * 4 + 64 * 4 + 32 * 8) + 32 * 4
    words = parts['bits of the word embedding'] // 4
    assert parts['bits of the word embedding'] == words * 4 and words > 90
    assert parts['scaling factors'] == 4 * (words + 2 * (5 * 32 + 64) + 32)
    assert parts['position and token-type embeddings'] == 4 * 32 * (64 + 2)
