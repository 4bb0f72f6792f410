import json
from pathlib import Path

import pytest
from pycocotools.coco import COCO

from tests.scripts import load_script

TOOL = 'tools/dataset_converters/cut_coco_sample.py'
SAMPLE = Path(__file__).parents[3] / 'demo' / 'coco_sample'


def cut(run_tool, dest, *args):
    return run_tool(TOOL, '--src', SAMPLE, '--dest', dest, *args)


def test_keeps_bytes_categories_and_only_the_annotations_of_the_chosen_images(run_tool, tmp_path):
    done = cut(run_tool, tmp_path / 'cut', '--num-train', 3, '--num-val', 2)
    assert done.returncode == 0, done.stderr
    for split, number in (('train2017', 3), ('val2017', 2)):
        coco = COCO(tmp_path / 'cut' / 'annotations' / f'instances_{split}.json')
        full = COCO(SAMPLE / 'annotations' / f'instances_{split}.json')
        images = coco.loadImgs(coco.getImgIds())
        assert len(images) == number
        assert coco.cats == full.cats
        assert {a['id'] for a in coco.anns.values()} == set(full.getAnnIds(imgIds=coco.getImgIds()))
        files = sorted((tmp_path / 'cut' / split).iterdir())
        assert [f.name for f in files] == [image['file_name'] for image in images]
        assert all(f.read_bytes() == (SAMPLE / split / f.name).read_bytes() for f in files)


def test_uses_only_the_allowed_licences_and_lists_each_image(run_tool, tmp_path):
    done = cut(run_tool, tmp_path / 'cut', '--num-train', 4, '--num-val', 1, '--licenses', 5)
    assert done.returncode == 0, done.stderr
    images = json.loads((tmp_path / 'cut/annotations/instances_train2017.json').read_text())['images']
    assert [image['license'] for image in images] == [5] * 4
    listed = (tmp_path / 'cut/LICENSES.md').read_text()
    for image in images:
        assert image['flickr_url'] in listed and image['coco_url'] in listed
    assert listed.count('Attribution-ShareAlike') == 5
    assert 'CC BY 4.0' in listed


def test_too_few_images_is_one_sentence_and_writes_nothing(run_tool, tmp_path):
    done = cut(run_tool, tmp_path / 'cut', '--licenses', 3)
    assert done.returncode == 1
    assert '0 images in' in done.stderr and 'licence in [3]' in done.stderr and '--licenses' in done.stderr
    assert 'Traceback' not in done.stderr
    assert not (tmp_path / 'cut').exists()


def test_missing_source_names_the_file_looked_for(run_tool, tmp_path):
    done = run_tool(TOOL, '--src', tmp_path / 'nothing', '--dest', tmp_path / 'cut')
    assert done.returncode == 1
    assert str(tmp_path / 'nothing/annotations/instances_train2017.json') in done.stderr
    assert 'Traceback' not in done.stderr


def test_never_writes_into_a_folder_that_holds_something(run_tool, tmp_path):
    (tmp_path / 'mine.txt').write_text('keep')
    done = cut(run_tool, tmp_path)
    assert done.returncode == 1 and 'not an empty folder' in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ['mine.txt']


@pytest.mark.parametrize(
    ('change', 'sentence'),
    [
        (lambda coco: coco.pop('licenses'), "has no list 'licenses'."),
        (lambda coco: coco['images'][3].pop('flickr_url'), "one of its images has no 'flickr_url'."),
        (lambda coco: coco['annotations'][3].pop('iscrowd'), "one of its annotations has no 'iscrowd'."),
        (lambda coco: coco['licenses'].clear(), 'which the file does not list.'),
    ],
    ids=['licences', 'image', 'annotation', 'unknown licence'],
)
def test_what_the_source_lacks_is_one_sentence_and_nothing_is_written(tmp_path, monkeypatch, change, sentence, capsys):
    for split in ('train2017', 'val2017'):
        path = tmp_path / 'src/annotations' / f'instances_{split}.json'
        path.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / 'src' / split).symlink_to(SAMPLE / split)
        coco = json.loads((SAMPLE / 'annotations' / path.name).read_text())
        if split == 'val2017':
            change(coco)
        path.write_text(json.dumps(coco))
    tool = load_script(TOOL)
    options = ['--src', tmp_path / 'src', '--dest', tmp_path / 'cut', '--num-train', 2, '--num-val', 2]
    monkeypatch.setattr('sys.argv', [TOOL, *map(str, options)])
    with pytest.raises(SystemExit):
        tool.main()
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / 'cut').exists()


def test_the_shipped_sample_may_be_shared_and_is_small():
    files = [path for path in SAMPLE.rglob('*') if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 8e6
    for split, number in (('train2017', 32), ('val2017', 16)):
        coco = COCO(SAMPLE / 'annotations' / f'instances_{split}.json')
        assert len(coco.imgs) == number and len(coco.cats) == 80
        assert {image['license'] for image in coco.imgs.values()} <= {4, 5, 7}
        assert {image['file_name'] for image in coco.imgs.values()} == {p.name for p in (SAMPLE / split).iterdir()}
