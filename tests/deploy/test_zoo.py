"""The trained models of the package: found by name, as good as their cards say where a photograph can tell."""

import json
from pathlib import Path

import numpy as np
import pytest

from rebnn_mm.deploy import ModelFileError, load
from rebnn_mm.deploy.image import read_image, resize_bilinear
from rebnn_mm.deploy.session import library_available
from rebnn_mm.deploy.zoo import FOLDER, cards, main, zoo_path
from rebnn_mm.export.difference import agreement
from rebnn_mm.utils.config_file import config_path
from tests.tolerances import FLOAT32_ROUNDING
from tools.docs.zoo import zoo_page

ROOT = Path(__file__).parents[2]
PHOTO = 'zoo:BloodImage_00021.jpg'
# Those of the annotations that stand alone in the photograph.
TRUTH = [
    ('WBC', (329, 301, 494, 438)),
    ('Platelets', (374, 102, 422, 146)),
    ('Platelets', (482, 183, 530, 227)),
    ('RBC', (362, 140, 483, 255)),
    ('RBC', (520, 108, 625, 204)),
    ('RBC', (96, 334, 217, 449)),
    ('RBC', (208, 0, 318, 111)),
]


def overlap(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    both = max(width, 0) * max(height, 0)
    return both / (sum((x2 - x1) * (y2 - y1) for x1, y1, x2, y2 in (a, b)) - both)


@pytest.fixture(scope='module', params=['blood-cells-tiny', 'blood-cells-nano', 'blood-cells'])
def found(request):
    return load(f'zoo:{request.param}')(PHOTO).at_least(0.4)


@pytest.mark.parametrize(('name', 'box'), TRUTH)
def test_a_cell_is_found(found, name, box):
    # by half, which AP50 counts as found: platelets of 44 pixels are not met much better
    cells = zip(found.names, found.boxes, strict=True)
    assert max(overlap(cell, box) for kind, cell in cells if kind == name) > 0.5


def test_the_classifier_knows_a_horse():
    (label, *_) = load('zoo:cifar10-resnet20')('zoo:horse.png')
    assert label.name == 'horse' and label.score > 0.5


def test_each_kind_of_defect_is_found_once():
    board = load('zoo:board-defects')('zoo:board.png').at_least(0.4)
    assert sorted(board.names) == ['copper', 'mousebite', 'open', 'pin-hole', 'short', 'spur']


def test_one_cat_is_found():
    found = load('zoo:people-and-animals')('zoo:cat.jpg').at_least(0.5)
    assert found.names == ['cat'] and overlap(found.boxes[0], (0, 0, 440, 300)) > 0.8


def test_files_and_cards_are_the_same_models_and_small():
    files = {path.stem: path.stat().st_size for path in FOLDER.glob('*.onnx')}
    assert files == {card['name']: card['bytes'] for card in cards()}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 7e6


@pytest.mark.parametrize('card', cards(), ids=lambda card: card['name'])
def test_a_card_names_what_is_there(card):
    config = config_path(card['config'])
    assert config.is_file() and load(zoo_path(card['name'])).metadata.config == config.name
    assert 'licence_file' not in card['data'] or (ROOT / card['data']['licence_file']).is_file()
    assert zoo_path(card['sample']).is_file()
    assert all(card['config'] in card[step] for step in ('packed', 'scored'))


def test_the_page_holds_the_cards():
    assert zoo_page() in (ROOT / 'docs' / 'zoo.md').read_text()


@pytest.mark.skipif(not library_available(), reason='the library with our kernels is not built')
@pytest.mark.parametrize('card', cards(), ids=lambda card: card['name'])
def test_with_the_library_and_without_it_only_rounding_differs(card):
    """All are files of --fast, so that the last bits may differ, and with them a sign, as docs/deployment.md says."""
    first, second = (load(zoo_path(card['name']), use_library=library) for library in (True, False))
    assert '--fast' in card['packed'] and first.session.get_modelmeta().custom_metadata_map['rebnn.real_layout']
    one, other = (model(zoo_path(card['sample'])) for model in (first, second))
    if hasattr(one, 'boxes'):
        found = agreement(*((boxes.boxes, boxes.scores, boxes.labels) for boxes in (one, other)))
        assert found.missing + found.extra <= 0.2 * len(one.boxes) and found.score < 0.1
    else:
        assert [label.name for label in one] == [label.name for label in other]
        assert max(abs(a.score - b.score) for a, b in zip(one, other, strict=True)) < FLOAT32_ROUNDING


def test_another_name_is_one_sentence():
    with pytest.raises(
        ModelFileError, match=r'^no packed model at blood-cells-tny; did you mean zoo:blood-cells-tiny\?$'
    ):
        load('blood-cells-tny')
    with pytest.raises(
        ModelFileError, match=r"^the zoo has no 'blood_cells', only blood-cells-tiny, .*; did you mean"
    ):
        load('zoo:blood_cells')


def test_the_command_shows_a_card_and_a_path(capsys):
    main(['blood-cells-tiny', '--path'])
    assert Path(capsys.readouterr().out.strip()).is_file()
    main(['zoo:blood-cells-tiny', '--json'])
    assert json.loads(capsys.readouterr().out) == cards()[0]
    main(['blood-cells'])
    assert 'AP 55.3, AP50 86.9' in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(['cats'])
    assert ": the zoo has no 'cats'" in capsys.readouterr().err


def test_a_photo_of_any_size_becomes_as_small_as_the_classifier_was_trained_for(photo):
    model = load('zoo:cifar10-resnet20')
    small = resize_bilinear(read_image(photo), (32, 32))
    assert model.prepare(np.zeros((1500, 2000, 3), np.uint8)).image.shape == (1, 3, 32, 32)
    assert np.array_equal(model.scores(photo), model.scores(small))
