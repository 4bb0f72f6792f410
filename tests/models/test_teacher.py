from torch import nn, zeros

from rebnn_mm.models.teacher import note_calls


def test_a_module_of_two_names_is_noted_under_both_and_left_as_it_was():
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, shared)
    before = dict(vars(shared))
    with note_calls(model, ['0', '1']) as calls:
        shared(zeros(1, 2))
    assert len(calls['0']) == len(calls['1']) == 1
    assert dict(vars(shared)) == before
