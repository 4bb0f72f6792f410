import pytest

from rebnn_mm.layers import BinaryLinear
from rebnn_mm.methods import BNNLinear, ReBNNLinear
from rebnn_mm.utils.options import check_options, find_unknown_options


class Base:
    def __init__(self, width, height=1):
        pass


class Closed(Base):
    def __init__(self, depth):
        pass


class Open(Base):
    def __init__(self, depth, **kwargs):
        pass


def test_options_of_bases_count_where_they_are_handed_on():
    check_options('Open', ['depth', 'height'], Open)
    with pytest.raises(ValueError, match="Closed: no option 'height'. Known: depth"):
        check_options('Closed', ['height'], Closed)
    check_options('linear', ['gamma', 'center', 'bias', 'dtype'], ReBNNLinear)


def test_the_nearest_name_is_given():
    with pytest.raises(ValueError, match="linear: no option 'centre'. Did you mean 'center'?"):
        check_options('linear', ['centre'], ReBNNLinear)


def test_what_another_type_has_comes_before_what_nobody_has():
    message = str(find_unknown_options('layer', ['nothing', 'gamma', 'center'], BNNLinear, BinaryLinear))
    assert message.startswith('layer: no option gamma, center (of ReBNNLinear); remove')
    check_options('layer', ['gamma'], ReBNNLinear, BinaryLinear)


def test_misspelt_for_every_type_gets_the_nearest_of_its_own():
    message = str(find_unknown_options('layer', ['keep_reel'], BNNLinear, BinaryLinear))
    assert message.startswith("layer: no option 'keep_reel'. Did you mean 'keep_real'? Known: in_features, ")
