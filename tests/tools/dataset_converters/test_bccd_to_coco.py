import pytest
from pycocotools.coco import COCO

from tests.scripts import load_script, run_script

TOOL = 'tools/dataset_converters/bccd_to_coco.py'
VOC = """<annotation><filename>x</filename><size><width>640</width><height>480</height><depth>3</depth></size>{objects}
</annotation>"""
OBJECT = (
    '<object><name>{}</name><bndbox><xmin>{}</xmin><ymin>{}</ymin><xmax>{}</xmax><ymax>{}</ymax></bndbox></object>'
)


def make_source(folder, last_class='Platelets'):
    for part in ('Annotations', 'JPEGImages', 'ImageSets/Main'):
        (folder / part).mkdir(parents=True)
    objects = [('WBC', 67, 314, 286, 480), ('RBC', 10, 10, 10, 50), (last_class, 1, 2, 4, 8)]
    for split in ('train', 'val', 'test'):
        name = f'BloodImage_{split}'
        (folder / 'ImageSets/Main' / f'{split}.txt').write_text(f'{name}\n')
        boxes = ''.join(OBJECT.format(*item) for item in objects)
        (folder / 'Annotations' / f'{name}.xml').write_text(VOC.format(objects=boxes))
        (folder / 'JPEGImages' / f'{name}.jpg').write_bytes(split.encode())
    return folder


def convert(src, dest):
    return run_script(TOOL, '--src', src, '--dest', dest)


def test_converts_boxes_and_names_those_without_area(tmp_path):
    done = convert(make_source(tmp_path / 'BCCD'), tmp_path / 'out')
    assert done.returncode == 0, done.stderr
    assert done.stderr.count('left out a RBC box without area') == 3
    coco = COCO(str(tmp_path / 'out/annotations/instances_val.json'))
    (image,) = coco.dataset['images']
    assert image == {'id': 1, 'file_name': 'BloodImage_val.jpg', 'width': 640, 'height': 480}
    boxes = [(a['category_id'], a['bbox'], a['area']) for a in coco.dataset['annotations']]
    assert boxes == [(2, [67, 314, 219, 166], 219 * 166), (3, [1, 2, 3, 6], 18)]
    assert [c['name'] for c in coco.dataset['categories']] == ['RBC', 'WBC', 'Platelets']
    assert (tmp_path / 'out/images/BloodImage_test.jpg').read_bytes() == b'test'


def test_wrong_folder_and_unknown_class_write_nothing(tmp_path):
    done = convert(tmp_path, tmp_path / 'out')
    assert done.returncode == 1 and 'must be the folder BCCD of a clone' in done.stderr
    done = convert(make_source(tmp_path / 'BCCD', last_class='Cat'), tmp_path / 'out')
    assert done.returncode != 0 and "holds class 'Cat'; BCCD has RBC, WBC, Platelets." in done.stderr
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
    ('spoil', 'sentence'),
    [
        (lambda src: (src / 'JPEGImages/BloodImage_test.jpg').unlink(), 'no image at '),
        (lambda src: (src / 'Annotations/BloodImage_test.xml').unlink(), 'No such file or directory'),
        (lambda src: (src / 'Annotations/BloodImage_test.xml').write_text('<a>'), 'BloodImage_test.xml is not XML'),
        (lambda src: (src / 'ImageSets/Main/test.txt').write_text(''), 'a list in ImageSets/Main is empty.'),
        (
            lambda src: (src / 'Annotations/BloodImage_test.xml').write_text(VOC.replace('<width>640</width>', '')),
            'whole numbers are missing in an annotation (size/width None, size/height 480).',
        ),
        (
            lambda src: (src / 'Annotations/BloodImage_test.xml').write_text(
                VOC.format(objects=OBJECT.format('RBC', 1.5, 1, 9, 9))
            ),
            'whole numbers are missing in an object (bndbox/xmin 1.5,',
        ),
        (lambda src: (src.parent / 'out').touch(), 'out'),
    ],
    ids=['image', 'annotation', 'XML', 'list', 'size', 'box', 'destination'],
)
def test_what_is_wrong_is_one_sentence_and_nothing_is_written(tmp_path, monkeypatch, spoil, sentence, capsys):
    src = make_source(tmp_path / 'BCCD')
    spoil(src)
    tool = load_script(TOOL)
    monkeypatch.setattr('sys.argv', [TOOL, '--src', str(src), '--dest', str(tmp_path / 'out')])
    with pytest.raises(SystemExit):
        tool.main()
    assert sentence in capsys.readouterr().err
    assert not list((tmp_path / 'out').glob('*'))
