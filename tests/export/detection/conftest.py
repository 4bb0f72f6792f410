"""mmdet's scope, as its configs expect it."""

import pytest
from mmengine.registry import DefaultScope

pytest.importorskip('mmdet')


@pytest.fixture(autouse=True)
def _scope_of_mmdet():
    with DefaultScope.overwrite_default_scope('mmdet'):
        yield
