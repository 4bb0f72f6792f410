"""Files compared by score, time and size; ONNX Runtime's int8 of a full-precision one is made on the way."""

import json
import os
import sys

import pytest
from mmengine.config import Config

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from lab.tools import choice_page
from rebnn_mm.benchmark.choice import int8_of
from rebnn_mm.cli.choose import key_of, main, metric_of, percent
from rebnn_mm.deploy import TextClassifier, load
from rebnn_mm.evaluation.packed_predictor import score
from rebnn_mm.export.exporter import export, write
from tests.export.conftest import tiny_classifier, tiny_parts
from tests.tools.packed_classifier import NORMAL

BEGIN, END = '<!-- begin choice -->\n', '<!-- end choice -->\n'


def choose(*arguments):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, 'argv', ['rebnn choose', *map(str, arguments)])
        main()


@pytest.fixture(scope='module')
def files(classifier):
    """The packed file of the folder and a full-precision one of the same structure."""
    backbone = tiny_parts()['backbone'] | dict(conv_cfg=None)
    model = tiny_classifier(backbone=backbone, head=dict(type='LinearClsHead', num_classes=10, in_channels=8))
    backbone = backbone | dict(base_channels=2 * backbone['base_channels'])
    wide = tiny_classifier(backbone=backbone, head=dict(type='LinearClsHead', num_classes=10, in_channels=16))
    names = load(classifier / 'tiny.onnx').classes
    steps = dict(resize=dict(mode='exact', size=[32, 32]), channels='bgr', **NORMAL)
    about = dict(preprocess=steps, classes=names, size=(32, 32))
    write(export(model, **about).data, classifier / 'real.onnx')
    write(export(wide, **about).data, classifier / 'wide.onnx')
    (classifier / 'others.json').write_text('{"images": []}')
    cfg = Config.fromfile(classifier / 'tiny.py')
    cfg.train_dataloader = cfg.test_dataloader
    cfg.dump(classifier / 'trained.py')
    return classifier


def test_a_table_a_picture_and_scores_that_are_kept(files, capsys):
    out, picture = files / 'choose.json', files / 'choose.png'
    given = [f'1 bit={files / "tiny.onnx"}', f'fp32={files / "real.onnx"}']
    allowed = os.sched_getaffinity(0)
    command = [files / 'trained.py', *given, '--int8-of', 'fp32', '--rounds', 1, '--json', out, '--picture', picture]
    choose(*command)
    rows = [line.split('|')[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith('| ')]
    assert [cell.strip() for cell in rows[0]] == ['file', 'accuracy', 'ms', 'MB']
    report = json.loads(out.read_text())
    labels = [point['label'] for point in report['points']]
    assert labels == ['1 bit', 'fp32', 'fp32, int8'] == [row[0].strip() for row in rows[1:]]
    for point, path in zip(report['points'], ('tiny.onnx', 'real.onnx'), strict=False):
        assert point['megabytes'] == round((files / path).stat().st_size / 1e6, 3) and point['ms'] > 0
    assert picture.read_bytes()[1:4] == b'PNG'
    assert os.sched_getaffinity(0) == allowed
    page = files / 'page.md'
    page.write_text(f'Files:\n{BEGIN}old\n{END}More.\n')
    choice_page.main([str(out), str(page)])
    text = page.read_text()
    assert text.startswith(f'Files:\n{BEGIN}| file |') and text.endswith(f'{END}More.\n')
    assert 'Measured 20' in text and f' by `rebnn choose {files}/trained.py' in text and 'old' not in text
    # A score is not computed again: what the file says of it is believed.
    report['scores'] = {key: {'accuracy/top1': 99.0} for key in report['scores']}
    out.write_text(json.dumps(report))
    choose(*command)
    assert '| 99.0 |' in capsys.readouterr().out


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['{folder}/tiny.onnx'], 'give each file a label of its own'),
        (['a={folder}/tiny.onnx', 'a={folder}/real.onnx'], 'give each file a label of its own'),
        (['a={folder}/nothing.onnx'], 'nothing.onnx'),
        (['a={folder}/tiny.onnx', '--int8-of', 'b'], '--int8-of b: the files are called a.'),
        (
            ['a={folder}/real.onnx', '--int8-of', 'a'],
            '--int8-of takes images of the training set, and the config has none',
        ),
        (['a={folder}/tiny.onnx', '--metric', 'AP'], 'there is no AP; choose by --metric from accuracy/top1'),
        (['a={folder}/tiny.onnx', '--picture', 'a.gif'], 'cannot write a picture to a.gif. End the name in .png'),
        (['a={folder}/tiny.onnx', '--json', '{folder}/tiny.onnx'], 'tiny.onnx: it is an input. Name another file.'),
        (
            ['a={folder}/tiny.onnx', '--json', '{folder}/others.json'],
            'others.json was not written by this program',
        ),
        (
            ['a={folder}/tiny.onnx', 'a, int8={folder}/real.onnx', '--int8-of', 'a'],
            "--int8-of a makes 'a, int8', which is given",
        ),
        (['a={folder}/tiny.onnx', '--cfg-options', 'test_dataloader=None'], 'has no test_dataloader. Take'),
        (['a={folder}/tiny.onnx', '--cfg-options', 'test_evaluator.type=Acuracy'], "Did you mean 'Accuracy'?"),
        (
            ['a={folder}/tiny.onnx', '--cfg-options', 'test_dataloader.dataset.metainfo.classes=("a",)'],
            '{folder}/tiny.onnx',
        ),
    ],
)
def test_mistakes_are_one_sentence(files, arguments, message, tmp_path, capsys):
    given = [text.format(folder=files) for text in arguments]
    with pytest.raises(SystemExit):
        choose(files / 'tiny.py', '--json', tmp_path / 'choose.json', *given)
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert message.format(folder=files) in line


def test_int8_of_two_files_of_one_name(files, tmp_path, capsys):
    for folder, model in (('a', files / 'real.onnx'), ('b', files / 'wide.onnx')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / 'real.onnx').write_bytes(model.read_bytes())
    given = [f'{label}={tmp_path / label / "real.onnx"}' for label in 'ab']
    choose(
        files / 'trained.py', *given, '--int8-of', 'a', 'b', '--rounds', 1, '--json', tmp_path / 'new' / 'choose.json'
    )
    a, b = json.loads((tmp_path / 'new' / 'choose.json').read_text())['points'][2:]
    assert (a['label'], b['label']) == ('a, int8', 'b, int8') and a['megabytes'] != b['megabytes']


def test_a_score_depends_on_the_evaluator_and_on_the_annotations(files, tmp_path):
    cfg = Config.fromfile(files / 'tiny.py')
    labels = tmp_path / 'labels.json'
    labels.write_text('1')
    cfg.test_dataloader.dataset.ann_file = str(labels)
    cfg.test_dataloader.dataset.data_root = ''
    keys = [key_of(files / 'tiny.onnx', cfg)]
    labels.write_text('2')
    keys.append(key_of(files / 'tiny.onnx', cfg))
    cfg.test_evaluator.topk = (1, 5)
    keys.append(key_of(files / 'tiny.onnx', cfg))
    keys.append(key_of(files / 'real.onnx', cfg))
    assert len(set(keys)) == 4


def test_scoring_leaves_the_config_as_it_is(files):
    cfg = Config.fromfile(files / 'tiny.py')
    cfg.test_dataloader.batch_size = 2
    score(cfg, load(files / 'tiny.onnx'))
    assert cfg.test_dataloader.batch_size == 2


def test_a_file_that_finds_nothing_counts_as_0(files, tmp_path, capsys):
    assert metric_of({'dead': {}, 'alive': {'pascal_voc/mAP': 0.5}}, None) == 'pascal_voc/mAP'
    assert metric_of({'dead': {}}, None) == 'coco/bbox_mAP'
    out, model = tmp_path / 'choose.json', files / 'tiny.onnx'
    key = key_of(model, Config.fromfile(files / 'tiny.py'))
    out.write_text(json.dumps({'scores': {key: {}}}))  # as mmdet scores such a detector
    choose(files / 'tiny.py', f'1 bit={model}', '--rounds', 1, '--json', out)
    said = capsys.readouterr()
    assert '| 0.0 |' in said.out and 'note: 1 bit finds nothing, which counts as 0\n' in said.err


def test_what_is_binary_is_not_quantized_that_way(files):
    with pytest.raises(ValueError, match=r'tiny.onnx holds binary layers: its rest becomes int8 by rebnn export'):
        int8_of(files / 'tiny.onnx', [])


def test_a_model_of_texts_is_refused(files, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr('rebnn_mm.cli.choose.load', lambda path: object.__new__(TextClassifier))
    with pytest.raises(SystemExit):
        choose(files / 'tiny.py', f'a={files / "tiny.onnx"}', '--json', tmp_path / 'choose.json')
    assert 'tiny.onnx takes texts, and only models of images are compared here.' in capsys.readouterr().err


@pytest.mark.parametrize(
    ('metric', 'shown'), [('coco/bbox_mAP', 60.0), ('pascal_voc/mAP', 60.0), ('accuracy/top1', 0.6)]
)
def test_shares_are_shown_in_percent(metric, shown):
    assert percent(metric, 0.6) == shown
