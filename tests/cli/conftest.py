import pytest


@pytest.fixture(scope='module')
def classifier(tmp_path_factory):
    """A folder with config, checkpoint, packed file and images of a tiny classifier."""
    pytest.importorskip('mmpretrain')
    from tests.tools.packed_classifier import write_classifier

    return write_classifier(tmp_path_factory.mktemp('classifier'))
