"""Folders of images with boxes as people have them, and what can be wrong with them."""

import json
import shutil
from pathlib import Path

import cv2
import pytest
from PIL import Image

from rebnn_mm.datasets.annotated_folder import as_coco, read_annotated
from rebnn_mm.datasets.photo_places import Box, find_split
from rebnn_mm.deploy.image import read_image
from rebnn_mm.errors import RebnnError
from tests.datasets.painted import FORMS, check

SAMPLE = Path(__file__).parents[2] / 'demo' / 'coco_sample'


def picture(path: Path, size=(40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new('RGB', size).save(path)


def coco(count: int = 5, **change) -> dict:
    """Images of 40x30 with one box each."""
    return (
        dict(
            images=[dict(id=i, file_name=f'{i}.png', width=40, height=30) for i in range(count)],
            annotations=[dict(id=i, image_id=i, category_id=7, bbox=[1, 2, 10, 10], iscrowd=0) for i in range(count)],
            categories=[dict(id=7, name='cat'), dict(id=9, name='dog')],
        )
        | change
    )


@pytest.fixture
def folder(tmp_path):
    for number in range(5):
        picture(tmp_path / 'pictures' / f'{number}.png')
    return tmp_path


def write(folder: Path, content: dict, name: str = 'labels.json') -> None:
    (folder / name).write_text(json.dumps(content))


def voc(folder: Path, name: str, *boxes: tuple[str, int, int, int, int], size=(40, 30)) -> None:
    objects = ''.join(
        f'<object><name>{kind}</name><bndbox><xmin>{a}</xmin><ymin>{b}</ymin><xmax>{c}</xmax><ymax>{d}</ymax></bndbox>'
        '</object>'
        for kind, a, b, c, d in boxes
    )
    target = folder / f'{name}.xml' if (folder / f'{name}.png').is_file() else folder / 'Annotations' / f'{name}.xml'
    target.parent.mkdir(exist_ok=True)
    target.write_text(
        f'<annotation><filename>{name}.png</filename><size><width>{size[0]}</width><height>{size[1]}</height></size>'
        f'{objects}</annotation>'
    )


def test_the_sample_in_its_own_layout():
    data = read_annotated(SAMPLE)
    content = json.loads((SAMPLE / 'annotations/instances_train2017.json').read_text())
    assert [photo.file for photo in data.splits['train']] == [f'train2017/{i["file_name"]}' for i in content['images']]
    boxes = sum(len(photo.boxes) for photo in data.splits['train'])
    assert boxes == len(content['annotations']) and len(data.classes) == 53
    numbers = {category['name']: category['id'] for category in content['categories']}
    assert list(data.classes) == sorted(data.classes, key=numbers.get)


def test_one_file_is_split_by_a_seed_and_images_may_lie_anywhere(folder):
    write(folder, coco())
    data = read_annotated(folder)
    assert {split: len(photos) for split, photos in data.splits.items()} == {'train': 4, 'val': 1}
    assert data.classes == ('cat',)
    assert data.notes[0] == 'no validation split found: 1 of 5 images are held out, chosen by seed 0'
    assert read_annotated(folder).splits == data.splits


def test_what_comes_out_is_what_went_in(folder):
    boxes = [dict(id=i, image_id=i, category_id=7, bbox=[1, 2, 10, 20], iscrowd=0) for i in range(5)]
    write(folder, coco(annotations=boxes))
    data = read_annotated(folder)
    again = as_coco(data.splits['train'], data.classes)
    assert [(entry['bbox'], entry['area']) for entry in again['annotations']] == [([1, 2, 10, 20], 200)] * 4
    assert again['categories'] == [dict(id=1, name='cat')]
    write(folder, again, 'mine_train.json')  # which a second call leaves alone
    assert read_annotated(folder) == data


def test_voc_in_its_own_layout(tmp_path):
    for name in ('a', 'b', 'c'):
        picture(tmp_path / 'JPEGImages' / f'{name}.png')
    voc(tmp_path, 'a', ('dog', 1, 2, 11, 22), ('cat', 0, 0, 5, 5))
    voc(tmp_path, 'b', ('cat', 3, 3, 9, 8))
    voc(tmp_path, 'c')
    write_lists(tmp_path, train='a\nc\n', val='b\n')
    data = read_annotated(tmp_path)
    assert data.classes == ('cat', 'dog')
    assert data.splits['train'][0].boxes == [Box('dog', 1, 2, 10, 20), Box('cat', 0, 0, 5, 5)]
    assert [photo.file for photo in data.splits['val']] == ['JPEGImages/b.png']
    assert (
        'training images have no box: they are used as background, unless --no-negatives leaves them out (1, the '
        'first: JPEGImages/c.png)'
    ) in data.notes


def voc_of_four(folder: Path, **lists: str) -> None:
    """Four images of VOC, and these lists of them."""
    for name in ('my photo 1', 'b', 'c', 'd'):
        picture(folder / 'JPEGImages' / f'{name}.png')
        voc(folder, name, ('cat', 1, 2, 11, 22))
    write_lists(folder, **lists)


def write_lists(folder: Path, **lists: str) -> None:
    (folder / 'ImageSets/Main').mkdir(parents=True, exist_ok=True)
    for name, text in lists.items():
        (folder / f'ImageSets/Main/{name}.txt').write_text(text)


@pytest.mark.parametrize(
    ('lists', 'expected'),
    [
        (dict(train='my photo 1\nb.png\n\n', val='JPEGImages/c.png\n'), dict(train='my photo 1 b', val='c')),
        (dict(val='b\nc\n'), dict(train='d my photo 1', val='b c')),
        (dict(trainval='my photo 1\nb\nc', test='d'), dict(train='my photo 1 b c', test='d', val='d')),
        (dict(trainval='my photo 1\nb\nc', val='b'), dict(train='my photo 1 c', val='b')),
        (dict(train='b\nd', val='c', trainval='b\nc\nd'), dict(train='b d', val='c')),
    ],
)
def test_lists_of_voc_say_what_is_for_training(tmp_path, lists, expected):
    voc_of_four(tmp_path, **lists)
    data = read_annotated(tmp_path)
    found = {split: ' '.join(Path(photo.file).stem for photo in photos) for split, photos in data.splits.items()}
    assert found == expected


def test_lines_of_voc_that_name_nothing(tmp_path):
    voc_of_four(tmp_path, train='b\ngone\nc\n')
    assert 'lines of lists have no annotations (1, the first: gone in train.txt)' in read_annotated(tmp_path).notes
    (tmp_path / 'ImageSets/Main/train.txt').write_bytes(b'b\nc\ncaf\xe9\n')  # not in UTF-8
    assert (
        'lines of lists have no annotations (1, the first: caf\ufffd in train.txt)' in read_annotated(tmp_path).notes
    )
    write_lists(tmp_path, train='gone 1\n')
    with pytest.raises(match=r"train.txt: no line of it is the name of an XML .* is 'gone 1'\.$"):
        read_annotated(tmp_path)


@pytest.mark.parametrize('form', ['coco', 'voc'])
def test_splits_that_are_folders(tmp_path, form):
    """As Roboflow exports them, names in each that another has as well."""
    for split, count in (('train', 3), ('valid', 2), ('test', 1)):
        for number in range(count):
            picture(tmp_path / split / f'{number}.png')
            if form == 'voc':
                voc(tmp_path / split, str(number), (split, 1, 2, 11, 22))
        if form == 'coco':
            write(tmp_path / split, coco(count), '_annotations.coco.json')
    data = read_annotated(tmp_path)
    assert {split: [photo.file for photo in photos] for split, photos in data.splits.items()} == {
        'train': ['train/0.png', 'train/1.png', 'train/2.png'],
        'val': ['valid/0.png', 'valid/1.png'],
        'test': ['test/0.png'],
    }


def test_images_of_one_name_in_two_folders(tmp_path):
    for place in ('one', 'two'):
        for number in range(3):
            picture(tmp_path / place / f'{number}.png')
            voc(tmp_path / place, str(number), (place, 1, 2, 11, 22))
    data = read_annotated(tmp_path)
    assert sum(map(len, data.splits.values())) == 6 and data.classes == ('one', 'two')
    (tmp_path / 'two').rename(tmp_path / 'train')
    data = read_annotated(tmp_path)
    assert 'are in no folder of a split and not used (3, the first: one/0.png)' in data.notes
    assert data.classes == ('two',)


def test_an_image_of_another_folder_is_not_taken(tmp_path):
    for number in range(5):
        picture(tmp_path / 'raw' / 'day2' / f'{number}.png')
    content = coco()
    names = [f'day2/{number}.png' for number in range(5)]
    content['images'] = [image | dict(file_name=name) for image, name in zip(content['images'], names, strict=True)]
    write(tmp_path, content)
    assert sum(len(photos) for photos in read_annotated(tmp_path).splits.values()) == 5
    content['images'][3]['file_name'] = 'day1/3.png'
    write(tmp_path, content)
    with pytest.raises(match=r'there is no image day1/3\.png'):
        read_annotated(tmp_path)
    content['images'][3]['file_name'] = '/home/somebody/day1/3.png'
    write(tmp_path, content)
    assert sum(len(photos) for photos in read_annotated(tmp_path).splits.values()) == 5


def test_the_area_of_a_mask_is_kept_where_its_box_is(folder):
    content = coco()
    for entry in content['annotations']:
        entry['area'] = 37.5
    content['annotations'][2]['bbox'] = [35, 2, 10, 10]
    write(folder, content)
    data = read_annotated(folder)
    photos = [photo for split in data.splits.values() for photo in split]
    areas = [entry['area'] for entry in as_coco(photos, data.classes)['annotations']]
    assert sorted(areas) == [37.5] * 4 + [50]


def test_boxes_are_mended_and_that_is_said(folder):
    entries = coco()['annotations']
    entries[0]['bbox'] = [35, 5, 20, 10]
    entries += [dict(entries[1], id=10), dict(entries[2], id=11, bbox=[5, 5, 0, 4])]
    write(folder, coco(annotations=entries), 'train.json')
    write(folder, coco(annotations=coco()['annotations']), 'val.json')
    data = read_annotated(folder)
    assert data.splits['train'][0].boxes == [Box('cat', 35, 5, 5, 10)]
    assert [len(photo.boxes) for photo in data.splits['train']] == [1] * 5
    assert data.notes[:4] == [
        'cut boxes that reached beyond their image (1, the first: cat in pictures/0.png)',
        'left out boxes that were there twice (1, the first: cat in pictures/1.png)',
        'left out boxes less than a pixel wide or high inside their image (1, the first: cat in pictures/2.png)',
        'classes without any box are left out (1, the first: dog)',
    ]
    assert 'are in train and in val (5, the first: pictures/0.png)' in data.notes


def test_an_image_that_has_lost_its_boxes_is_no_negative(folder):
    entries = coco()['annotations']
    entries[0]['bbox'] = [5, 5, 0, 4]
    write(folder, coco(annotations=entries[:3]), 'train.json')
    write(folder, coco(), 'val.json')
    data = read_annotated(folder)
    assert [len(photo.boxes) for photo in data.splits['train']] == [1, 1, 0, 0]
    assert 'images have lost all their boxes and are not used (1, the first: pictures/0.png)' in data.notes


def test_a_photograph_on_its_side_is_measured_upright(tmp_path):
    exif = Image.Exif()
    exif[274] = 6
    for number in range(2):
        Image.new('RGB', (30, 40)).save(tmp_path / f'{number}.png', exif=exif)
    write(tmp_path, coco(2))
    assert [(photo.width, photo.height) for photo in read_annotated(tmp_path).splits['train']] == [(40, 30)]
    write(tmp_path, coco(2, images=[dict(id=i, file_name=f'{i}.png', width=30, height=40) for i in range(2)]))
    with pytest.raises(match='is 40x30, and its annotations are for 30x40: remove the turn in its EXIF data if the'):
        read_annotated(tmp_path)


def test_a_webp_that_its_exif_data_turn_is_refused(folder):
    exif = Image.Exif()
    exif[274] = 3  # OpenCV turns what others read, but not this
    (folder / 'pictures/0.png').unlink()
    Image.new('RGB', (40, 30)).save(folder / 'pictures/0.webp', exif=exif)
    images = [dict(id=i, file_name=f'{i}.{"png" if i else "webp"}', width=40, height=30) for i in range(5)]
    write(folder, coco(images=images))
    with pytest.raises(match='0.webp is turned by its EXIF data, .*: save it upright'):
        read_annotated(folder)


def test_a_tiff_whose_colours_opencv_changes_is_refused(folder):
    picture = Image.new('RGBA', (40, 30), (200, 100, 50, 90))
    (folder / 'pictures/0.png').unlink()
    picture.save(folder / 'pictures/0.tif')
    assert (cv2.imread(str(folder / 'pictures/0.tif')) != read_image(folder / 'pictures/0.tif')[..., ::-1]).any()
    images = [dict(id=i, file_name=f'{i}.{"png" if i else "tif"}', width=40, height=30) for i in range(5)]
    write(folder, coco(images=images))
    with pytest.raises(match='0.tif is a TIFF with alpha, whose colours OpenCV changes: save it as PNG'):
        read_annotated(folder)


@pytest.mark.parametrize('form', ['coco', 'voc', 'csv'])
def test_images_without_labels_are_not_passed_over_in_silence(folder, form):
    if form == 'coco':
        write(folder, coco(4))
    elif form == 'voc':
        for number in range(4):
            voc(folder, f'{number}', ('cat', 1, 2, 11, 12))
    else:
        rows = ''.join(f'{number}.png,1,2,11,12,cat\n' for number in range(4))
        (folder / 'boxes.csv').write_text(f'filename,xmin,ymin,xmax,ymax,class\n{rows}')
    notes = read_annotated(folder).notes
    assert 'images have no labels and are not used (1, the first: pictures/4.png)' in notes


def test_labels_of_a_second_form_are_not_passed_over_in_silence(folder):
    def unread() -> list[str]:
        return [note.partition(' (')[2] for note in read_annotated(folder).notes if 'another form' in note]

    label = folder / 'pictures/0.txt'
    label.write_text('0 0.5 0.5 0.25 0.25\n')
    for number in range(5):
        voc(folder, f'{number}', ('cat', 1, 2, 11, 12))
    assert unread() == [f'1, the first: {label})']
    write(folder, coco())
    assert unread() and unread()[0].startswith('2, the first: ') and '.xml' in unread()[0]
    (folder / 'labels.json').unlink()
    (folder / 'data.yaml').write_text('names: [cat, dog]\n')
    for number in range(1, 5):
        shutil.copy(label, folder / f'pictures/{number}.txt')
    assert unread() and unread()[0].startswith('1, the first: ') and '.xml' in unread()[0]


def test_a_name_with_a_blank_behind_it_is_the_same_class(folder):
    annotations = [dict(id=i, image_id=i, category_id=7 + 2 * (i % 2), bbox=[1, 2, 10, 10]) for i in range(5)]
    write(folder, coco(annotations=annotations, categories=[dict(id=7, name='cat'), dict(id=9, name='cat ')]))
    data = read_annotated(folder)
    assert data.classes == ('cat',) and 'classes of one name are taken for one (1, the first: cat)' in data.notes


def test_files_as_windows_writes_them(folder):
    images = [dict(id=i, file_name=f'pictures\\{i}.png', width=40, height=30) for i in range(5)]
    (folder / 'labels.json').write_text(json.dumps(coco(images=images)), encoding='utf-8-sig')
    assert sorted(p.file for found in read_annotated(folder).splits.values() for p in found)[0] == 'pictures/0.png'


@pytest.mark.parametrize(
    ('encoding', 'name'), [('gb2312', '\u732b'), ('Shift_JIS', '\u732b'), ('windows-1252', 'K\xe4fer')]
)
def test_voc_in_the_encoding_that_it_declares(tmp_path, encoding, name):
    for file in ('a', 'b'):
        picture(tmp_path / f'{file}.png')
        voc(tmp_path, file, (name, 1, 2, 11, 22))
        text = (tmp_path / f'{file}.xml').read_text()
        (tmp_path / f'{file}.xml').write_bytes(f'<?xml version="1.0" encoding="{encoding}"?>{text}'.encode(encoding))
    assert read_annotated(tmp_path).classes == (name,)
    (tmp_path / 'a.xml').write_text(f'<?xml version="1.0" encoding="martian"?>{text}')
    with pytest.raises(RebnnError, match=r'a\.xml is not a VOC XML file \(unknown encoding: martian\)'):
        read_annotated(tmp_path)


@pytest.mark.parametrize(
    ('name', 'split'),
    [
        *(('Train', 'train'), ('training_set', 'train'), ('train2017', 'train'), ('testing', 'test')),
        *((name, 'val') for name in ('val', 'VAL', 'val2017', 'val-1', 'val_images', 'valimages', 'valset')),
        *((name, 'val') for name in ('valid', 'validation', 'Validierung')),
        *((name, '') for name in ('valves', 'valley', 'values', 'interval')),
    ],
)
def test_names_that_begin_like_a_split(name, split):
    assert find_split([name]) == split


def test_numbers_of_classes_that_are_texts_and_names_that_come_twice(folder):
    classes = [dict(id='2', name='dog'), dict(id=7, name='cat'), dict(id=1, name='cat')]
    write(folder, coco(categories=classes))
    data = read_annotated(folder)
    assert data.classes == ('cat',) and 'classes of one name are taken for one (1, the first: cat)' in data.notes


@pytest.mark.parametrize(
    ('change', 'words'),
    [
        (
            dict(annotations=[dict(id=1, image_id=0, category_id=7, bbox=[0, 0, 9, 9], iscrowd=1)]),
            'crowds not counted',
        ),
        (dict(annotations=[]), 'that is for training has a box'),
        (
            dict(annotations=[dict(id=1, image_id=99, category_id=7, bbox=[0, 0, 1, 1])]),
            'of image 99, which is',
        ),
        (dict(annotations=[dict(id=1, image_id=0, category_id=3, bbox=[0, 0, 1, 1])]), 'has the class 3, not in the'),
        (dict(annotations=[dict(id=1, image_id=0, category_id=7, bbox=[0, 0])]), 'has no box of four numbers'),
        (
            dict(annotations=[dict(id=1, image_id=0, category_id=7, bbox=[None] * 4)]),
            r"is not of COCO's form \(TypeError: ",
        ),
        (
            dict(annotations=[dict(id=i, image_id=i, category_id=7, bbox=[0.1, 0.2, 0.5, 0.8]) for i in range(5)]),
            'within the first pixel of its image. They are counted in pixels, not as shares',
        ),
        (
            dict(categories=[dict(id=7, name='cat'), dict(id=7, name='dog')]),
            'two classes have one id, so boxes are mixed',
        ),
        (dict(categories=[dict(id=7, name=' ')]), r'a box in pictures/\d\.png has no class'),
        (dict(categories=[dict(id=7)]), r"is not of COCO's form \(KeyError: 'name'\)"),
        (dict(images=[dict(id=0, file_name='gone.png')], annotations=[]), 'there is no image gone.png in '),
        (
            dict(images=[dict(id=i, file_name=f'{i}.png', width=30, height=40) for i in range(5)]),
            '0.png is 40x30, and its annotations are for 30x40, and 4 more like it',
        ),
    ],
)
def test_what_cannot_be_trained_on_is_one_sentence(folder, change, words):
    write(folder, coco(**change))
    with pytest.raises(match=words):
        read_annotated(folder)


BROKEN_BOXES = [
    ('<ymax>22</ymax>', '', 'is not a box of four numbers'),
    ('<ymax>22</ymax>', '<ymax>nan</ymax>', 'is not a box of four numbers'),
    ('<xmin>1</xmin>', '<xmin>inf</xmin>', 'is not a box of four numbers'),
    ('<xmin>1</xmin>', '<xmin>left</xmin>', 'is not a VOC XML file'),
    ('<xmax>11</xmax>', '<xmax>0</xmax>', 'ends before it begins: its corners are swapped'),
    ('<ymin>2</ymin>', '<ymin>25</ymin>', 'ends before it begins: its corners are swapped'),
]


@pytest.mark.parametrize(('before', 'after', 'words'), BROKEN_BOXES)
def test_broken_boxes_of_voc_are_named_with_their_file(tmp_path, before, after, words):
    for name in ('a', 'b', 'c'):
        picture(tmp_path / f'{name}.png')
        voc(tmp_path, name, ('dog', 1, 2, 11, 22))
    path = tmp_path / 'b.xml'
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(match=rf'b\.xml.*{words}'):
        read_annotated(tmp_path)


@pytest.mark.parametrize(
    ('box', 'words'),
    [
        ([1, float('nan'), 5, 5], 'annotation 3 is not a box of four numbers'),
        ([1, 1, float('inf'), 5], 'annotation 3 is not a box of four numbers'),
        ([9, 9, -5, 5], 'annotation 3 ends before it begins: its corners are swapped'),
    ],
)
def test_broken_boxes_of_coco_are_named_with_their_file(folder, box, words):
    content = coco()
    content['annotations'][3]['bbox'] = box
    write(folder, content)
    with pytest.raises(match=rf'labels\.json: {words}'):
        read_annotated(folder)


def test_a_class_of_crowds_has_nothing_to_learn_from(folder):
    content = coco(categories=[dict(id=7, name='cat'), dict(id=9, name='dog'), dict(id=11, name='cow')])
    content['annotations'] += [
        dict(id=10 + number, image_id=number, category_id=9, bbox=[2, 2, 20, 20], iscrowd=1) for number in range(5)
    ]
    write(folder, content)
    data = read_annotated(folder)
    assert data.classes == ('cat', 'dog')
    assert 'classes have no training boxes (1, the first: dog)' in data.notes
    assert 'classes without any box are left out (1, the first: cow)' in data.notes


@pytest.mark.parametrize('seldom', range(5))
def test_every_class_keeps_a_training_image(folder, seldom):
    content = coco()
    content['annotations'][seldom]['category_id'] = 9
    write(folder, content)
    data = read_annotated(folder)
    assert {box.name for box in data.boxes('train')} == {'cat', 'dog'}
    assert [len(data.splits[split]) for split in ('train', 'val')] == [4, 1] and data.boxes('val')


def test_classes_of_one_image_each_are_validated_on_what_they_learn_from(folder):
    names = 'abcde'
    content = coco(categories=[dict(id=number, name=name) for number, name in enumerate(names)])
    for number, entry in enumerate(content['annotations']):
        entry['category_id'] = number
    write(folder, content)
    data = read_annotated(folder)
    assert data.splits['train'] == data.splits['val'] and len(data.splits['val']) == 5
    assert any(note.startswith('each image has the only box of a class') for note in data.notes)


def test_what_validates_has_a_box(folder):
    content = coco()
    content['annotations'] = content['annotations'][:2]
    write(folder, content)
    data = read_annotated(folder)
    assert data.boxes('train') and data.boxes('val')


def test_other_folders(tmp_path, folder):
    with pytest.raises(match='there is no folder .*nowhere'):
        read_annotated(tmp_path / 'nowhere')
    with pytest.raises(match='holds no annotations: neither a JSON file'):
        read_annotated(folder)
    write(folder, coco(), 'train_a.json')
    write(folder, coco(), 'train_b.json')
    with pytest.raises(match='could both be the annotations of one split. Name those to use: --train'):
        read_annotated(folder)
    data = read_annotated(folder, {'train': folder / 'train_a.json'})
    assert len(data.splits['train']) == 4
    (folder / 'pictures' / '0.png').write_text('no image')
    with pytest.raises(match=r'0.png cannot be read as an image'):
        read_annotated(folder, {'train': folder / 'train_a.json'})


@pytest.mark.parametrize('names', [('train', 'valid'), ('Train', 'Validation'), ('training', 'val')])
def test_lists_have_the_names_that_tools_give_them(tmp_path, names):
    voc_of_four(tmp_path, **dict(zip((*names, 'cat_val'), ('b\nc\n', 'd\n', 'b -1\n'), strict=True)))
    data = read_annotated(tmp_path)
    assert {split: len(photos) for split, photos in data.splits.items()} == dict(train=2, val=1)
    assert 'are in no list and not used (1, the first: JPEGImages/my photo 1.png)' in data.notes


def test_an_id_of_two_images_is_refused_and_an_image_of_two_ids_is_one(folder):
    content = coco()
    content['images'][3]['id'] = 1
    write(folder, content)
    with pytest.raises(match=r'the images 1.png and 3.png have one id, 1, so boxes are mixed up'):
        read_annotated(folder)
    content = coco()
    content['images'][3]['file_name'] = '1.png'
    content['annotations'][3]['bbox'] = [20, 2, 10, 10]
    write(folder, content)
    data = read_annotated(folder)
    photos = {photo.file: photo for photos in data.splits.values() for photo in photos}
    assert len(photos) == 4 and len(photos['pictures/1.png'].boxes) == 2
    assert 'images are listed twice, and their boxes put together (1, the first: pictures/1.png)' in data.notes


def test_images_of_a_split_are_in_its_folder(tmp_path):
    """Names that another split has as well, in folders of any case, below a folder that is called like a split."""
    root = tmp_path / 'my_train_data'
    for place, count in (('images', 3), ('val_images', 2), ('Test', 1)):
        for number in range(count):
            picture(root / place / f'{number}.png')
    for split, count in (('Train', 3), ('Validation', 2), ('test', 1)):
        write(root, coco(count), f'instances_{split}.json')
    data = read_annotated(root)
    assert {split: [photo.file for photo in photos] for split, photos in data.splits.items()} == {
        'train': ['images/0.png', 'images/1.png', 'images/2.png'],
        'val': ['val_images/0.png', 'val_images/1.png'],
        'test': ['Test/0.png'],
    }


def test_images_beside_the_folder_of_their_annotations(tmp_path):
    for day in ('one', 'two'):
        for number in range(3):
            picture(tmp_path / day / 'JPEGImages' / f'{number}.png')
            voc(tmp_path / day, str(number), (day, 1, 2, 11, 22))
    found = read_annotated(tmp_path).splits
    assert all(photo.boxes[0].name in photo.file for photos in found.values() for photo in photos)
    shutil.move(tmp_path / 'one' / 'Annotations', tmp_path / 'labels')
    with pytest.raises(match='2 images in .* are called 0.png, and nothing tells which one is meant'):
        read_annotated(tmp_path)


def test_one_file_is_split_by_the_folders_of_its_images(tmp_path):
    content = coco()
    for number, image in enumerate(content['images']):
        image['file_name'] = f'{"train" if number < 3 else "test"}/{number}.png'
        picture(tmp_path / image['file_name'])
    write(tmp_path, content)
    data = read_annotated(tmp_path)
    assert {split: len(photos) for split, photos in data.splits.items()} == dict(train=3, test=2, val=2)


def test_a_named_file_leaves_the_others_their_splits(folder):
    write(folder, coco(3), 'labels_latest.json')
    write(folder, coco(2), 'val.json')
    assert {split: len(photos) for split, photos in read_annotated(folder).splits.items()} == dict(train=3, val=2)
    (folder / 'labels_latest.json').rename(folder / 'test_of_mine.json')
    found = read_annotated(folder, dict(train=folder / 'test_of_mine.json')).splits
    assert {split: len(photos) for split, photos in found.items()} == dict(train=3, val=2)


def test_images_without_boxes_validate_nothing(folder):
    write(folder, coco(), 'train.json')
    write(folder, coco(2, annotations=[]), 'test.json')
    data = read_annotated(folder)
    assert 'no test image has a box, so they are not used' in data.notes
    assert {split: len(photos) for split, photos in data.splits.items()} == dict(train=4, val=1)


def test_a_photograph_that_is_cut_off_is_refused(folder):
    for number in range(5):
        Image.effect_noise((40, 30), 50).save(folder / 'pictures' / f'{number}.jpg')
    write(folder, coco(images=[dict(id=i, file_name=f'{i}.jpg') for i in range(5)]))
    assert sum(map(len, read_annotated(folder).splits.values())) == 5
    whole = (folder / 'pictures' / '3.jpg').read_bytes()
    (folder / 'pictures' / '3.jpg').write_bytes(whole + b'what a camera adds')
    read_annotated(folder)
    inner = b'\xff\xe1' + (len(whole) + 2).to_bytes(2, 'big') + whole  # a small picture in the header
    for cut in (whole[: len(whole) // 2], whole[:2] + inner + whole[2 : len(whole) // 2]):
        (folder / 'pictures' / '3.jpg').write_bytes(cut)
        with pytest.raises(match=r'3.jpg is cut off: copy or download it again'):
            read_annotated(folder)


def float_tiff(path: Path) -> None:
    Image.new('F', (40, 30)).save(path, 'TIFF')


def half_png(path: Path) -> None:
    Image.effect_noise((40, 30), 50).save(path)
    path.write_bytes(path.read_bytes()[:500])


def huge_png(path: Path) -> None:
    Image.new('1', (14000, 14000)).save(path)


@pytest.mark.parametrize(
    ('spoil', 'words'),
    [
        (float_tiff, r'3\.png cannot be read as an image \(its pixels are of 32 bits, mode F'),
        (half_png, r'3\.png cannot be read as an image'),
        (huge_png, r'3\.png cannot be read as an image \(Image size'),
    ],
)
def test_an_image_that_training_or_the_packed_file_could_not_read_is_refused(folder, spoil, words):
    write(folder, coco())
    spoil(folder / 'pictures' / '3.png')
    with pytest.raises(match=words):
        read_annotated(folder)


def test_an_exif_entry_of_another_type_turns_nothing(folder):
    # Orientation, tag 0x112, as a text of two bytes.
    exif = b'Exif\0\0MM\0*' + bytes([0, 0, 0, 8, 0, 1, 1, 0x12, 0, 2, 0, 0, 0, 2]) + b'6\0\0\0' + bytes(4)
    Image.new('RGB', (40, 30)).save(folder / 'pictures' / '3.jpg', exif=exif)
    write(folder, coco(images=[dict(id=i, file_name='3.jpg' if i == 3 else f'{i}.png') for i in range(5)]))
    assert 'pictures/3.jpg' in {photo.file for photos in read_annotated(folder).splits.values() for photo in photos}


@pytest.mark.parametrize('form', ['../../media/upload/1/{}.png', r'images\..\..\upload\1\{}.png', '/data/1/{}.png'])
def test_a_folder_of_the_server_that_wrote_the_annotations_does_not_count(folder, form):
    write(folder, coco(images=[dict(id=i, file_name=form.format(i)) for i in range(5)]))
    assert sum(map(len, read_annotated(folder).splits.values())) == 5


def test_names_that_only_windows_or_macos_take_for_the_same(tmp_path):
    for name in ('A.JPG', 'e\u0301.jpg', 'twin.jpg', 'TWIN.jpg'):
        picture(tmp_path / 'pictures' / name)
    names = ['a.jpg', '\xe9.jpg', 'twin.jpg']
    write(tmp_path, coco(3, images=[dict(id=i, file_name=name) for i, name in enumerate(names)]))
    data = read_annotated(tmp_path)
    found = {Path(photo.file).name for photos in data.splits.values() for photo in photos}
    assert found == {'A.JPG', 'e\u0301.jpg', 'twin.jpg'}


def test_a_file_of_voc_is_of_the_image_that_is_called_like_it(tmp_path):
    for number, name in enumerate('abc'):
        picture(tmp_path / f'{name}.png')
        voc(tmp_path, name, ('cat', number, 2, 20, 22))
        path = tmp_path / f'{name}.xml'
        path.write_text(path.read_text().replace(f'{name}.png', 'a.png'))  # as renaming leaves it
    photos = sorted(photo for photos in read_annotated(tmp_path).splits.values() for photo in photos)
    assert [(photo.file, photo.boxes[0].left) for photo in photos] == [('a.png', 0), ('b.png', 1), ('c.png', 2)]


def test_an_image_of_two_voc_files_is_one(tmp_path):
    for name in 'abc':
        picture(tmp_path / f'{name}.png')
        voc(tmp_path, name, ('cat', 1, 2, 11, 22))
    (tmp_path / 'more').mkdir()
    text = (tmp_path / 'a.xml').read_text()
    (tmp_path / 'more/a.xml').write_text(text.replace('cat', 'dog'))
    data = read_annotated(tmp_path)
    assert sorted((photo.file, len(photo.boxes)) for photos in data.splits.values() for photo in photos) == [
        ('a.png', 2),
        ('b.png', 1),
        ('c.png', 1),
    ]
    assert 'images are listed twice, and their boxes put together (1, the first: a.png)' in data.notes


def test_what_macos_and_jupyter_hide_in_a_folder_is_passed_over(folder):
    write(folder, coco())
    (folder / '.ipynb_checkpoints').mkdir()
    (folder / '__MACOSX').mkdir()
    shutil.copy(folder / 'labels.json', folder / '.ipynb_checkpoints/labels-checkpoint.json')
    shutil.copy(folder / 'pictures/3.png', folder / '.ipynb_checkpoints/3.png')
    for name in ('._labels.json', '._labels.xml', '__MACOSX/labels.xml', 'pictures/._3.png'):
        (folder / name).write_bytes(b'\x00\x05\x16\x07')
    assert sum(map(len, read_annotated(folder).splits.values())) == 5


def test_what_a_training_wrote_into_the_folder_is_passed_over(folder):
    write(folder, coco())
    before = read_annotated(folder)
    picture(folder / 'work_dirs/train_x/painted/1_0.png')
    (folder / 'work_dirs/train_x/20261201.json').write_text('{"loss": 1}\n{"loss": 2}\n')
    assert read_annotated(folder) == before


@pytest.mark.parametrize('filename', ['{}/a.png', 'a.png'])
def test_voc_of_one_name_in_two_folders(tmp_path, filename):
    for number, place in enumerate('xy'):
        picture(tmp_path / f'JPEGImages/{place}/a.png')
        (tmp_path / f'Annotations/{place}').mkdir(parents=True)
        voc(tmp_path, 'a', ('cat', number, 2, 11, 22))
        text = (tmp_path / 'Annotations/a.xml').read_text().replace('a.png', filename.format(place))
        (tmp_path / 'Annotations/a.xml').unlink()
        (tmp_path / f'Annotations/{place}/a.xml').write_text(text)
    write_lists(tmp_path, train='x/a\n', val='y/a\n')
    data = read_annotated(tmp_path)
    found = {split: [(photo.file, photo.boxes[0].left) for photo in photos] for split, photos in data.splits.items()}
    assert found == {'train': [('JPEGImages/x/a.png', 0)], 'val': [('JPEGImages/y/a.png', 1)]}


@pytest.mark.parametrize('form', ['coco', 'voc', 'csv_tensorflow', 'yolo_ultralytics', 'yolo_labelimg'])
def test_a_link_to_nothing_is_passed_over(tmp_path, form):
    shutil.copytree(FORMS / form, tmp_path, dirs_exist_ok=True)
    for ending in ('csv', 'jpg', 'json', 'txt', 'xml'):
        (tmp_path / f'old.{ending}').symlink_to(tmp_path / 'nothing')
    check(read_annotated(tmp_path))


@pytest.mark.parametrize('form', ['coco', 'voc', 'csv_tensorflow', 'yolo_ultralytics', 'yolo_lists', 'yolo_labelimg'])
@pytest.mark.parametrize('each', [False, True])
def test_linked_folders_and_files_are_read_like_others(tmp_path, form, each):
    disk, folder = tmp_path / 'disk', tmp_path / 'mine'
    if each:  # image by image, away from its labels, under another name
        shutil.copytree(FORMS / form, folder)
        disk.mkdir()
        for number, path in enumerate(sorted(folder.rglob('*.jpg')) + sorted(folder.rglob('*.png'))):
            path.rename(disk / f'{number}{path.suffix}')
            path.symlink_to(disk / f'{number}{path.suffix}')
    else:
        shutil.copytree(FORMS / form, disk)
        folder.mkdir()
        for path in disk.iterdir():
            (folder / path.name).symlink_to(path)
        (disk / 'round').symlink_to(folder)
        (folder / 'up').symlink_to(tmp_path)
    check(read_annotated(folder))


def test_a_link_inside_of_the_folder_shows_no_image_twice(folder):
    (folder / 'again').symlink_to(folder / 'pictures')
    write(folder, coco())
    assert len(read_annotated(folder).splits['train']) == 4


def test_labels_are_next_to_a_linked_folder_or_next_to_what_it_leads_to(tmp_path):
    shutil.copytree(FORMS / 'yolo_ultralytics', tmp_path / 'disk')
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine/images').symlink_to(tmp_path / 'disk/images')
    shutil.copy(FORMS / 'yolo_ultralytics/data.yaml', tmp_path / 'mine')
    check(read_annotated(tmp_path / 'mine'))
    (tmp_path / 'disk/labels').rename(tmp_path / 'mine/labels')
    check(read_annotated(tmp_path / 'mine'))


@pytest.mark.parametrize('text', ['', '{"images": [{"id": 1, "file_name": "3', '[' * 100000])
def test_a_file_of_a_split_that_is_cut_off_is_named_and_not_passed_over(folder, text):
    write(folder, coco(), 'train.json')
    (folder / 'val.json').write_text(text)
    with pytest.raises(RebnnError, match=r'val\.json: it cannot be read as JSON .*\. Copy or .* another: --val FILE'):
        read_annotated(folder)
    write(folder, coco(), 'other.json')
    assert len(read_annotated(folder, dict(val=folder / 'other.json')).splits['val']) == 5


def test_a_file_of_coco_may_be_in_utf_16(folder):
    (folder / 'labels.json').write_text(json.dumps(coco()), encoding='utf-16')
    assert read_annotated(folder).classes == ('cat',)


def test_each_data_set_of_voc_has_lists_of_its_own(tmp_path):
    for year, train, val in (('2007', 'a', 'b'), ('2012', 'b', 'a')):
        root = tmp_path / f'VOC{year}'
        for name in (train, val):
            picture(root / f'JPEGImages/{name}.png')
            voc(root, name, ('cat', 1, 2, 11, 22))
        write_lists(root, train=train, val=val)
    splits = read_annotated(tmp_path).splits
    assert {photo.file for photo in splits['train']} == {'VOC2007/JPEGImages/a.png', 'VOC2012/JPEGImages/b.png'}
    assert {photo.file for photo in splits['val']} == {'VOC2007/JPEGImages/b.png', 'VOC2012/JPEGImages/a.png'}


def test_boxes_that_mmdet_would_pass_over_are_left_out_and_counted(folder):
    content = coco()
    for number, box in enumerate(([1, 1, 0.5, 9], [39.5, 2, 5, 5])):
        content['annotations'][number]['bbox'] = box
    content['annotations'][2] |= dict(area=-1, iscrowd='0')
    write(folder, content)
    data = read_annotated(folder)
    assert any(note.startswith('images have lost all their boxes and are not used (2, ') for note in data.notes)
    written = [entry for photos in data.splits.values() for entry in as_coco(photos, data.classes)['annotations']]
    assert [(entry['area'], entry['iscrowd']) for entry in written] == [(100, 0)] * 3
