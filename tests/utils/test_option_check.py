import pytest

from rebnn_mm.layers import ReBNNLinear
from rebnn_mm.utils.option_check import check_options


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
