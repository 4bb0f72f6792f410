"""CSV files of boxes in the usual orders of columns, and what can be wrong with them."""

import csv
import shutil

import pytest
from PIL import Image

from rebnn_mm.datasets.annotated_folder import read_annotated
from rebnn_mm.errors import RebnnError
from tests.datasets.painted import FORMS, check

FILES = dict(
    csv_retinanet='train_annotations.csv',
    csv_tensorflow='labels.csv',
    csv_shares='boxes.csv',
    csv_automl='import.csv',
    csv_sides='boxes.csv',
)


@pytest.mark.parametrize('form', FILES)
def test_every_form_gives_the_boxes_that_were_painted(form):
    data = read_annotated(FORMS / form)
    check(data)
    shares = [note for note in data.notes if note.startswith('boxes are read as shares of the width and height')]
    assert bool(shares) == (form in ('csv_shares', 'csv_automl'))
    assert any('left, top, right, bottom' in note for note in data.notes) == (form == 'csv_retinanet')


def test_a_name_that_looks_misspelt_is_noted(tmp_path):
    rows = [f'{number}.png,1,1,9,9,RBC' for number in range(20)] + ['0.png,1,1,5,5,RCB', '2.png,2,1,9,9,Platelet']
    (tmp_path / 'boxes.csv').write_text('\n'.join(['filename,xmin,ymin,xmax,ymax,class', *rows]))
    for number in range(20):
        Image.new('RGB', (16, 16)).save(tmp_path / f'{number}.png')
    notes = read_annotated(tmp_path).notes
    assert "RCB: 1 box. Did you mean 'RBC'?" in notes
    assert not any(note.startswith('Platelet') for note in notes)


def changed(folder, form, before, after):
    shutil.copytree(FORMS / form, folder / form)
    path = folder / form / FILES[form]
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    return folder / form


@pytest.mark.parametrize(
    ('form', 'before', 'after', 'words'),
    [
        ('csv_tensorflow', 'p0.jpg,96,64,disc,60,', 'p0.jpg,96,64,disc,nan,', r'labels\.csv: row 3 is not a box'),
        (
            'csv_tensorflow',
            'p0.jpg,96,64,disc,60,',
            'p0.jpg,96,64,disc,,',
            'row 3 has no class, or is not a box of',
        ),
        ('csv_tensorflow', 'p0.jpg,96,64,disc,60,', 'p0.jpg,96,64,disc,90,', 'row 3 ends before it begins'),
        ('csv_tensorflow', 'p0.jpg,96,64,disc,60,', 'p9.jpg,96,64,disc,60,', r'row 3: there is no image p9\.jpg'),
        ('csv_tensorflow', 'p0.jpg,96,64,disc,60,', 'p0.jpg,96,64,,60,', 'row 3 has no class'),
        ('csv_retinanet', 'images/p0.jpg,60,9,80', 'images/p0.jpg,60,9,20', r'csv: row 2 ends before it begins'),
        ('csv_tensorflow', ',96,64,', ',48,32,', 'is 96x64, and its annotations are for 48x32'),
        ('csv_tensorflow', 'xmin,ymin,xmax,ymax', 'a,b,c,d', 'nor a CSV file with a box in each row'),
    ],
)
def test_what_does_not_fit_is_named_with_its_row(tmp_path, form, before, after, words):
    with pytest.raises(match=words):
        read_annotated(changed(tmp_path, form, before, after))


def test_a_first_row_of_unknown_names_is_no_box(tmp_path):
    folder = shutil.copytree(FORMS / 'csv_retinanet', tmp_path / 'csv')
    path = folder / FILES['csv_retinanet']
    path.write_text(f'bild,links,oben,rechts,unten,klasse\n{path.read_text()}')
    with pytest.raises(RebnnError, match=r'names that are not known: bild, links, .*Name them filename, xmin'):
        read_annotated(folder)
    path.write_text('filename,xmin,ymin,xmax,ymax,class\n')
    with pytest.raises(RebnnError, match='but none to train on'):
        read_annotated(folder)


def test_a_table_is_named_for_its_split(tmp_path):
    folder = changed(tmp_path, 'csv_retinanet', 'red square', 'red square')
    (folder / 'train_annotations.csv').rename(folder / 'mine.csv')
    shutil.copy(folder / 'mine.csv', folder / 'other.csv')
    with pytest.raises(match='could both be the boxes of one split. Name those to use: --train FILE'):
        read_annotated(folder)
    names = dict(train='mine.csv', val='val_annotations.csv', test='test_annotations.csv')
    check(read_annotated(folder, {split: folder / name for split, name in names.items()}))
    with pytest.raises(match=r'classes\.csv has no columns of a box. Name them in its first row'):
        read_annotated(folder, dict(train=folder / 'classes.csv'))


def test_a_folder_above_says_nothing_of_the_split(tmp_path):
    folder = tmp_path / 'test_rig'
    shutil.copytree(FORMS / 'csv_retinanet', folder)
    (folder / 'train_annotations.csv').rename(folder / 'mine.csv')
    check(read_annotated(folder))


@pytest.mark.parametrize(
    ('name', 'text', 'words'),
    [
        ('a.json', '{"shapes": [], "imagePath": "p0.jpg"}', 'a.json looks like labelme: export it in COCO'),
        ('a.json', '{"_via_img_metadata": {}}', 'looks like VGG Image Annotator'),
        ('part.tfrecord', '', 'part.tfrecord looks like TFRecord: export it again in'),
        ('a.json', '[{"id": 1, "predictions": []}]', 'looks like Label Studio'),
        ('a.json', '{"images": [', r'a.json cannot be read as JSON \(Expecting value'),
        ('annotations.xml', '<annotations><version>1.1</version></annotations>', 'annotations.xml looks like CVAT'),
        ('a.json', '[]', 'holds no annotations: neither a JSON file'),
    ],
)
def test_other_forms_are_named(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(match=words):
        read_annotated(tmp_path)


def test_a_column_may_be_longer_than_python_reads_by_itself(tmp_path):
    for name in 'ab':
        Image.new('RGB', (40, 30)).save(tmp_path / f'{name}.png')
    points = '"' + '1.5,' * 50000 + '"'
    rows = [f'{name}.png,1,2,11,22,cat,{points}' for name in 'ab']
    (tmp_path / 'boxes.csv').write_text('\n'.join(['filename,xmin,ymin,xmax,ymax,class,mask', *rows]))
    assert read_annotated(tmp_path).splits['train'][0].boxes == [('cat', 1, 2, 10, 20, False, 0)]
    assert csv.field_size_limit() < 200000  # as for everything else in the process


HEAD = 'filename,xmin,ymin,xmax,ymax,class,note\n'


@pytest.fixture
def two(tmp_path):
    for name in 'ab':
        Image.new('RGB', (40, 30)).save(tmp_path / f'{name}.png')
    return tmp_path


def test_a_class_with_a_comma_is_whole_or_refused(two):
    rows = ['a.png, 1, 2, 11, 22, "cat, grey", x', 'b.png,1,2,11,22,"cat, grey",x']
    (two / 'boxes.csv').write_text(HEAD + '\n'.join(rows))
    assert read_annotated(two).classes == ('cat, grey',)
    (two / 'boxes.csv').write_text(HEAD.replace(',note', '') + 'a.png,1,2,11,22,cat,\nb.png,1,2,11,22,cat, grey\n')
    with pytest.raises(
        RebnnError, match=r'boxes\.csv: row 3 has more values than the first row has names.* into quotes'
    ):
        read_annotated(two)


def test_a_row_has_the_number_that_a_spreadsheet_gives_it(two):
    (two / 'boxes.csv').write_text(f'{HEAD}\n\nb.png,1,2,11,22,,\n')
    with pytest.raises(match='row 4 has no class'):
        read_annotated(two)


def test_a_table_in_another_encoding_is_read_or_named(two):
    rows = [f'{HEAD}{name}.png,1,2,11,22,Käfer,\n' for name in 'ab']
    (two / 'train.csv').write_text(rows[0], encoding='utf-8')
    (two / 'val.csv').write_text(rows[1], encoding='utf-16')
    data = read_annotated(two)
    assert data.classes == ('Käfer',) and data.splits['val'][0].file == 'b.png'
    (two / 'val.csv').write_text(rows[1], encoding='latin-1')
    with pytest.raises(match=r'val\.csv: its letters are not in UTF-8\. Save it again with this encoding'):
        read_annotated(two)
