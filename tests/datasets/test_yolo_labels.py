"""Labels of YOLO as tools write them, and what can be wrong with them."""

import shutil
from pathlib import Path

import pytest

from rebnn_mm.datasets.annotated_folder import read_annotated
from rebnn_mm.datasets.yolo_labels import label_of
from rebnn_mm.errors import RebnnError
from tests.datasets.painted import FORMS, check


@pytest.fixture
def copied(tmp_path):
    def copy(form: str) -> Path:
        shutil.copytree(FORMS / form, tmp_path / form)
        return tmp_path / form

    return copy


@pytest.mark.parametrize('form', ['yolo_ultralytics', 'yolo_roboflow', 'yolo_lists', 'yolo_labelimg'])
def test_every_form_gives_the_boxes_that_were_painted(form):
    data = read_annotated(FORMS / form)
    check(data)
    polygons = [note for note in data.notes if note.startswith('polygons and oriented boxes are replaced')]
    assert bool(polygons) == (form == 'yolo_roboflow')


@pytest.mark.parametrize(
    ('line', 'words'),
    [
        ('1 0.5 nan 0.1 0.1', 'is not a box of shares'),
        ('1 48 32 20 20', 'is not a box of shares of the width and height, between 0 and 1'),
        ('2 0.5 0.5 0.1 0.1', 'has the class 2, and there are 2, counted from 0'),
        ('0.5 0.5 0.5 0.1 0.1', r'has the class 0\.5'),
        ('1 0.5 0.5 0.1', 'is not a class and four or more numbers'),
        ('cat 0.5 0.5 0.1 0.1', 'is not a class and four or more numbers'),
        ('1 0.5 0.5 -0.1 0.1', 'has a negative width or height'),
    ],
)
def test_what_a_line_cannot_hold_is_named_with_its_file(copied, line, words):
    folder = copied('yolo_ultralytics')
    path = folder / 'labels/train/p1.txt'
    path.write_text(f'{path.read_text()}{line}\n')
    with pytest.raises(match=rf'labels/train/p1\.txt, line 3 {words}'):
        read_annotated(folder)


def test_a_line_of_a_list_that_is_not_utf8_is_a_name_like_others(copied):
    folder = copied('yolo_lists')
    (folder / 'train.txt').write_bytes((folder / 'train.txt').read_bytes() + b'\ncaf\xe9.png\n')
    with pytest.raises(RebnnError, match=r'train\.txt: '):
        read_annotated(folder)


def test_numbers_behind_a_box_are_left_out_and_images_without_a_file(copied):
    folder = copied('yolo_ultralytics')
    path = folder / 'labels/train/p0.txt'
    path.write_text(''.join(f'{line} 0.75\n' for line in path.read_text().splitlines()))
    (folder / 'labels/train/p1.txt').unlink()
    data = read_annotated(folder)
    assert [Path(photo.file).stem for photo in data.splits['train']] == ['p0', 'p2', 'p3']
    assert [len(photo.boxes) for photo in data.splits['train']] == [2, 0, 1]
    notes = '\n'.join(data.notes)
    assert 'numbers after the box are left out (2, the first: ' in notes
    assert 'images have no labels and are not used (1, the first: images/train/p1.jpg)' in notes
    outside = shutil.copy(folder / 'images/train/p0.jpg', folder.parent / 'outside.jpg')
    (folder / 'more.txt').write_text(f'images/train/p0.jpg\n{outside}\n')
    (folder / 'data.yaml').write_text('train: more.txt\nval: images/val\ntest: images/test\nnames: [disc, square]\n')
    notes = read_annotated(folder).notes
    assert f'images have no labels and are not used (2, the first: {outside})' in notes
    assert 'are in no split and not used (2, the first: images/train/p2.jpg)' in notes


@pytest.mark.parametrize(
    ('form', 'image'), [('yolo_ultralytics', 'images/train/p1.jpg'), ('yolo_labelimg', 'train/p1.jpg')]
)
def test_labels_whose_image_is_missing_are_named(form, image, copied):
    folder = copied(form)
    path = folder / image
    path.unlink()
    with pytest.raises(RebnnError, match=f'{label_of(path)} has boxes, and its image is missing'):
        read_annotated(folder)


def test_key_points_are_left_out(copied):
    folder = copied('yolo_ultralytics')
    for path in (folder / 'labels').rglob('*.txt'):
        path.write_text(''.join(f'{line} 0.5 0.5 2 0.4 0.4 1\n' for line in path.read_text().splitlines()))
    description = folder / 'data.yaml'
    description.write_text(f'{description.read_text()}kpt_shape: [2, 3]\n')
    check(read_annotated(folder))


def test_a_description_may_name_the_classes_alone(copied):
    folder = copied('yolo_roboflow')
    (folder / 'data.yaml').write_text("names: ['disc', 'red square']\n")
    check(read_annotated(folder))  # the splits are those of the folders' names


def test_names_that_yaml_takes_for_something_else(copied):
    folder = copied('yolo_ultralytics')
    description = folder / 'data.yaml'
    description.write_text('train: images/train\nval: images/val\nnames: [no, 2024]\n')
    assert read_annotated(folder).classes == ('no', '2024')


@pytest.mark.parametrize(
    ('text', 'words'),
    [
        ('train: images/training\nnames: [a, b]', 'train points to images/training, which does not exist'),
        ('train: images/train\nnames: {0: a, 2: b}', 'names are to be numbered from 0 without a gap'),
        ('train: images/train\nnames: {a: 0, b: 1}', 'names has a key that is not a number'),
        ('val: images/val\nnames: [a, b]', 'none to train on'),
        ('train: labels\nnames: [a, b]', 'labels holds no image'),
    ],
)
def test_descriptions_that_fit_nothing(copied, text, words):
    folder = copied('yolo_ultralytics')
    (folder / 'data.yaml').write_text(text)
    with pytest.raises(match=words):
        read_annotated(folder)


@pytest.mark.parametrize('test', ['../test/images', 'labels'])
def test_a_folder_of_test_images_may_lack(copied, test):
    folder = copied('yolo_ultralytics')
    description = folder / 'data.yaml'
    description.write_text(f'{description.read_text()}\ntest: {test}\n')
    data = read_annotated(folder)
    assert set(data.splits) == {'train', 'val'}
    assert any(note.startswith('no test images (1, the first: ') for note in data.notes)


def test_labels_that_lie_elsewhere(copied):
    folder = copied('yolo_ultralytics')
    (folder / 'labels').rename(folder / 'boxes')
    with pytest.raises(match=r'no image of train has a label file; .* at .*labels/train/p0\.txt'):
        read_annotated(folder)
    (folder / 'data.yaml').write_text('names: [cat, dog]\n')
    with pytest.raises(match='no image has a label file; the first was'):
        read_annotated(folder)


@pytest.mark.parametrize('entry', ['{a: images/train}', '[[images/train]]'])
def test_an_entry_that_is_no_text_points_to_nothing(copied, entry):
    folder = copied('yolo_ultralytics')
    (folder / 'data.yaml').write_text(f'train: {entry}\nval: images/val\nnames: [cat, dog]\n')
    with pytest.raises(RebnnError, match=r'data\.yaml: train points to .*images/train.*, which does not exist'):
        read_annotated(folder)


def test_two_numbers_of_one_name_are_one_class(copied):
    folder = copied('yolo_ultralytics')
    text = (folder / 'data.yaml').read_text()
    (folder / 'data.yaml').write_text(f'{text[: text.index("names")]}names: [cat, cat]\n')
    data = read_annotated(folder)
    assert data.classes == ('cat',) and 'classes of one name are taken for one (1, the first: cat)' in data.notes


def test_lists_of_names_in_several_folders_number_the_classes_alike(copied):
    """As labelImg writes one to each folder that it has labelled, in the order of use."""
    folder = copied('yolo_labelimg')
    names = (folder / 'classes.txt').read_text().splitlines()
    assert len(names) == 2
    (folder / 'more').mkdir()
    (folder / 'classes.txt').rename(folder / 'more' / 'classes.txt')
    (folder / 'classes.txt').write_text(f'{names[0]}\n')  # where only this one was seen
    check(read_annotated(folder))
    (folder / 'classes.txt').write_text(f'{names[1]}\n{names[0]}\n')
    with pytest.raises(RebnnError, match=r'classes\.txt and .*classes\.txt number the classes differently'):
        read_annotated(folder)


def test_labels_without_names_say_how_to_name_them(copied):
    folder = copied('yolo_labelimg')
    (folder / 'classes.txt').unlink()
    with pytest.raises(match=r'is a YOLO label file, and nothing names the classes: write .*data\.yaml'):
        read_annotated(folder)


def test_two_descriptions_are_one_too_many(copied):
    folder = copied('yolo_lists')
    shutil.copy(folder / 'shapes.yaml', folder / 'other.yml')
    with pytest.raises(match="both describe data in YOLO's form"):
        read_annotated(folder)


def test_labels_are_next_to_the_image_or_in_the_folder_of_labels(tmp_path):
    image = tmp_path / 'images' / 'day' / 'images' / 'a.b.jpg'
    assert label_of(image) == tmp_path / 'images' / 'day' / 'labels' / 'a.b.txt'
    image.parent.mkdir(parents=True)
    image.with_suffix('.txt').touch()
    assert label_of(image) == image.with_suffix('.txt')


def test_files_as_windows_writes_them(copied):
    folder = copied('yolo_ultralytics')
    description = folder / 'data.yaml'
    description.write_text(description.read_text().replace('images/', 'images\\'))
    check(read_annotated(folder))
    folder = copied('yolo_labelimg')
    for path in folder.rglob('*.txt'):
        path.write_bytes(b'\xef\xbb\xbf' + path.read_bytes().replace(b'\n', b'\r\n'))
    check(read_annotated(folder))


@pytest.mark.parametrize('data', [b'names: [cat', 'names: [Käfer]'.encode('latin-1')])
def test_a_description_that_cannot_be_read_is_named(copied, data):
    folder = copied('yolo_ultralytics')
    (folder / 'data.yaml').write_bytes(data)
    with pytest.raises(RebnnError, match=r'data\.yaml: it cannot be read as YAML in UTF-8 \('):
        read_annotated(folder)
