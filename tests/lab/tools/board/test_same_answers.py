"""The comparison of what two machines found."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[4] / 'lab' / 'tools' / 'board' / 'same_answers.py'
CAT = {'name': 'cat', 'label': 3, 'score': 0.5}
BOX = {'name': 'WBC', 'label': 1, 'score': 0.75, 'box': [1.0, 2.0, 3.0, 4.0]}


def compare(tmp_path, here, there):
    for name, answer in (('here', here), ('there', there)):
        (tmp_path / name).write_text(json.dumps(answer))
    done = subprocess.run(
        [sys.executable, TOOL, tmp_path / 'here', tmp_path / 'there'], capture_output=True, text=True
    )
    return done.returncode, done.stdout.strip()


@pytest.mark.parametrize(
    ('here', 'there', 'code', 'printed'),
    [
        ([CAT], [CAT], 0, 'the same: 1 answers, score by at most 0.0e+00'),
        ([CAT], [CAT | {'score': 0.50005}], 0, 'the same: 1 answers, score by at most 5.0e-05'),
        ([CAT], [CAT | {'score': 0.501}], 1, 'differs: 1 answers, score by at most 1.0e-03'),
        ([BOX], [BOX | {'box': [1.0, 2.0, 3.0, 4.5]}], 1, 'score by at most 0.0e+00, box by at most 5.0e-01'),
        ([BOX, CAT], [BOX], 1, 'differs: 2 answers here, 1 there.'),
        ([BOX], [CAT], 1, 'differs: answer 0 is WBC here and cat there.'),
        ([], [], 0, 'the same: 0 answers'),
    ],
)
def test_answers_are_compared(tmp_path, here, there, code, printed):
    found, output = compare(tmp_path, here, there)
    assert found == code and printed in output
