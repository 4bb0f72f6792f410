"""``rebnn-run`` as a user calls it."""

import io
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from PIL import Image

from rebnn_mm import native_library
from rebnn_mm.deploy import load
from rebnn_mm.deploy.run import main
from rebnn_mm.errors import UNREAD
from rebnn_mm.version import __version__


@pytest.fixture
def rebnn_run(capsys, monkeypatch):
    """``rebnn_run(model, image, ...)`` gives the exit code, the output and the error output."""
    monkeypatch.setattr(sys, 'argv', ['rebnn-run'])

    def run(*arguments):
        code = 0
        try:
            main([*map(str, arguments), '--no-library'])
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    return run


def test_a_classifier_prints_its_labels(rebnn_run, files, photo):
    code, out, err = rebnn_run(files['classifier'], photo, '--top', 2)
    labels = load(files['classifier'], use_library=False)(photo, top=2)
    assert (code, err) == (0, '')
    assert [line.split() for line in out.splitlines()] == [
        ['class', 'score'],
        *([label.name, f'{label.score:.3f}'] for label in labels),
    ]


def test_a_detector_prints_and_paints_its_boxes(rebnn_run, files, photo, tmp_path):
    out_path = tmp_path / 'boxes.png'
    code, out, err = rebnn_run(files['detector'], photo, '--score-thr', 0.5, '--out', out_path)
    found = load(files['detector'], use_library=False)(photo).at_least(0.5)
    rows = [line.split() for line in out.splitlines()]
    assert (code, err) == (0, '') and 0 < len(found) < 5
    assert [row[0] for row in rows[1:-2]] == found.names
    assert np.allclose([list(map(float, row[2:])) for row in rows[1:-2]], found.boxes, rtol=0, atol=0.051)
    assert out.splitlines()[-2:] == [
        f'{len(found)} objects with a score of at least 0.5 in {photo}',
        f'written: {out_path}',
    ]
    with Image.open(out_path) as painted, Image.open(photo) as plain:
        assert painted.size == plain.size
        changed = (np.asarray(painted) != np.asarray(plain)).any(axis=2).mean()
    assert 0.001 < changed < 0.5


def test_json_of_a_detector(rebnn_run, files, photo):
    code, out, _ = rebnn_run(files['detector'], photo, '--json', '--score-thr', 0)
    found = load(files['detector'], use_library=False)(photo)
    line = json.loads(out)
    rows = line['result']
    assert code == 0 and line['image'] == str(photo)
    assert [row['name'] for row in rows] == found.names and [row['label'] for row in rows] == found.labels.tolist()
    assert [row['score'] for row in rows] == found.scores.tolist()
    assert [row['box'] for row in rows] == found.boxes.tolist()


def test_json_of_a_classifier(rebnn_run, files, photo):
    _, out, _ = rebnn_run(files['classifier'], photo, '--json')
    best = load(files['classifier'], use_library=False)(photo)[0]
    assert json.loads(out)['result'][0] == {'name': best.name, 'label': best.number, 'score': best.score}


def test_json_of_one_image_is_the_line_of_several(rebnn_run, files, photo):
    one = rebnn_run(files['classifier'], photo, '--json')[1]
    assert rebnn_run(files['classifier'], photo, photo, '--json')[1] == 2 * one


def test_a_number_of_classes_is_for_a_classifier(rebnn_run, files, photo):
    code, out, err = rebnn_run(files['detector'], photo, '--top', 3)
    assert (code, out) == (1, '')
    assert err == f'rebnn-run: --top is for classifiers, which {files["detector"]} is not; leave it out\n'


def test_a_raw_model_writes_its_outputs(rebnn_run, files, photo, tmp_path):
    code, out, _ = rebnn_run(files['raw'], photo, '--out', tmp_path / 'new' / 'maps.npz')
    with np.load(tmp_path / 'new' / 'maps.npz') as saved:
        expected = load(files['raw'], use_library=False)(photo)['maps']
        assert saved.files == ['maps'] and np.array_equal(saved['maps'], expected)
    assert code == 0 and out.splitlines()[1].split() == ['maps', 'float32', '1', 'x', '16', 'x', '240', 'x', '320']
    assert [path.name for path in (tmp_path / 'new').iterdir()] == ['maps.npz']


@pytest.mark.parametrize(
    ('arguments', 'words'),
    [
        (['nowhere.onnx', 'photo'], 'rebnn-run: no packed model at nowhere.onnx; rebnn export writes one'),
        (['photo', 'photo'], 'it is not a packed model, or it is damaged'),
        (['detector', 'nowhere.jpg'], 'rebnn-run: no image at nowhere.jpg'),
        (['detector', 'detector'], 'cannot be read as an image'),
        (['detector', 'photo', '--out', 'boxes.txt'], 'images are written as .jpg or .png'),
        (['classifier', 'photo', '--out', 'boxes.png'], 'a classifier has no boxes to draw'),
        (['raw', 'photo', '--out', 'maps.png'], 'the outputs of a raw model are written as .npz'),
        (['raw', 'photo', '--out', f'{"a" * 252}.npz'], 'a.npz cannot be written ('),
        (['folder', 'photo'], ' is a folder; name the packed model in it'),
        (['detector', 'empty'], 'there is no image in the folder '),
        (['detector', 'photo', 'nowhere.jpg'], 'rebnn-run: no image at nowhere.jpg'),
        (['detector', 'nowhere.mp4'], 'no video at nowhere.mp4'),
        (['detector', 'photo', '--pair', 'b'], '--pair: '),
        (['detector', 'photo', 'photo', '--pair', 'b'], '--pair: '),
        (['detector', 'photo' * 60], 'rebnn-run: no image at photo'),
        (['detector', 'camera:front'], 'a camera has a number, such as camera:0'),
        (['detector', 'photo', 'photo', '--out', 'photo'], 'is a file; several images go into a folder, or a video'),
        (['detector', '7'], 'rebnn-run: 7 cannot be opened as a video: OpenCV finds nothing there'),
        (
            ['detector', 'rtsp://me:secret@127.0.0.1:9/a'],
            'rtsp://127.0.0.1:9/a cannot be opened as a video',
        ),
        (['detector', 'photo', '--provider', 'TPU'], ".onnx: this ONNX Runtime has no provider 'TPU', only "),
        (['classifier', 'empty', '--out', 'nowhere'], 'only a detector paints several images'),
        (
            ['https://a.org/m.onnx', 'photo'],
            'rebnn-run: https://a.org/m.onnx is a URL, which is not fetched',
        ),
        (
            ['detector', 'https://a.org/b.jpg'],
            'rebnn-run: https://a.org/b.jpg is a URL, which is not fetched',
        ),
    ],
)
def test_what_goes_wrong_is_one_sentence(rebnn_run, files, photo, arguments, words, tmp_path):
    places = {**files, 'photo': photo, 'folder': photo.parent, 'empty': tmp_path}
    code, out, err = rebnn_run(*(places.get(argument, argument) for argument in arguments))
    assert code == 1 and (out == '' or 'nowhere.jpg' in arguments)  # what was found before is printed
    assert err.startswith('rebnn-run: ') and words in err and err.count('\n') == 1


@pytest.mark.filterwarnings('ignore:No compiled kernels')
def test_times_without_the_library_say_so(files, photo, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(native_library, 'LIBRARY_FOLDER', tmp_path)
    main([str(files['classifier']), str(photo), '--time', '1'])
    assert capsys.readouterr().out.rstrip().endswith('without our kernels')


def test_an_input_is_not_overwritten(rebnn_run, files, photo, tmp_path):
    copy = tmp_path / 'copy.jpg'
    shutil.copyfile(photo, copy)
    (tmp_path / 'link.png').symlink_to(copy)
    for out in (copy, tmp_path / 'link.png'):
        code, _, err = rebnn_run(files['detector'], copy, '--out', out)
        assert (code, err) == (1, f'rebnn-run: --out {out} would overwrite an input; give another name\n')
    code, _, err = rebnn_run(files['detector'], tmp_path, '--out', tmp_path)
    assert code == 1 and 'holds inputs, which would be overwritten; give another folder' in err
    assert copy.read_bytes() == photo.read_bytes() and len(list(tmp_path.iterdir())) == 2


def test_runs_are_timed(rebnn_run, files, photo):
    code, out, _ = rebnn_run(files['classifier'], photo, '--time', 5)
    found = re.fullmatch(
        r'([\d.]+) ms, median of 5 runs \(([\d.]+) to ([\d.]+)\), 1 thread, without our kernels', out.splitlines()[-1]
    )
    median, least, most = map(float, found.groups())
    assert code == 0 and 0 < least <= median <= most
    _, out, err = rebnn_run(files['classifier'], photo, '--time', 1, '--json')
    assert json.loads(out) and 'median of 1 runs' in err


def test_the_list_and_the_versions_need_no_model(rebnn_run):
    code, out, _ = rebnn_run('--list')
    assert code == 0 and [line.split()[0] for line in out.splitlines()[1:3]] == [
        'blood-cells-tiny',
        'blood-cells-nano',
    ]
    code, out, _ = rebnn_run('--version')
    assert (code, out) == (
        0,
        f'rebnn_mm {__version__}, ONNX Runtime {onnxruntime.__version__}, NumPy {np.__version__}\n',
    )


@pytest.mark.parametrize('flag', ['--threads', '--top'])
def test_counts_must_be_counts(rebnn_run, files, photo, flag):
    code, _, err = rebnn_run(files['raw'], photo, flag, 0)
    assert code == 2 and 'must be at least 1' in err
    code, _, err = rebnn_run(files['raw'], photo, flag, 'x')
    assert code == 2 and err.endswith(f'argument {flag}: must be a whole number, not x\n')


def test_more_threads_than_a_session_takes(rebnn_run, files, photo):
    code, out, err = rebnn_run(files['raw'], photo, '--threads', 1025)
    assert (code, out) == (2, '') and err.endswith('--threads: must be at most 1024\n')


@pytest.mark.parametrize('threshold', ['5', '-0.1', 'nan', 'high'])
def test_a_score_lies_between_0_and_1(rebnn_run, files, photo, threshold):
    code, out, err = rebnn_run(files['detector'], photo, f'--score-thr={threshold}')
    assert (code, out) == (2, '')
    assert err.endswith(f'--score-thr: must be a number from 0 to 1, not {threshold}\n')


# Hides what a board does not have, as if it were not installed.
BOARD = """
import importlib.machinery, sys

HIDDEN = {'torch', 'torchvision', 'mmengine', 'mmcv', 'mmdet', 'mmpretrain', 'onnx', 'cv2', 'matplotlib', 'scipy'}
HIDDEN.add(sys.argv.pop(1))

class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, *more):
        return None if name.split('.')[0] in HIDDEN else self.finder.find_spec(name, *more)

sys.meta_path[:] = map(Without, sys.meta_path)
"""


def on_a_board(code, *arguments, hidden=''):
    """Run code where only NumPy, ONNX Runtime and, unless it is hidden, Pillow are installed."""
    command = [sys.executable, '-c', BOARD + code, hidden, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_runs_with_numpy_onnxruntime_and_pillow_alone(files, photo):
    code = """
from rebnn_mm.deploy import native
from rebnn_mm.deploy.run import main
from rebnn_mm.version import __version__
main()
print(sorted(HIDDEN & set(sys.modules)))
"""
    done = on_a_board(code, files['detector'], photo, '--no-library')
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split()[:2] == ['object', 'score']
    assert done.stdout.splitlines()[-1] == '[]'


def test_arrays_need_no_pillow(files):
    code = """
import numpy as np
from rebnn_mm.deploy import ImageError, load
model = load(sys.argv[1], use_library=False)
print(len(model(np.zeros((40, 40, 3), np.uint8))))
try:
    model('image.jpg')
except ImageError as error:
    print(error)
"""
    done = on_a_board(code, files['detector'], hidden='PIL')
    assert done.stdout.splitlines() == [
        '5',
        'reading an image file needs Pillow: pip install pillow, or pass an array instead',
    ]
    assert done.returncode == 0, done.stderr


def test_a_reader_that_stops_early(files, photo):
    """As with ``rebnn-run ... | head -1``."""
    code = """
import os, subprocess
from rebnn_mm.deploy import native
from rebnn_mm.deploy.run import main
from rebnn_mm.version import __version__
reader = subprocess.Popen(['true'], stdin=subprocess.PIPE)
reader.wait()
os.dup2(reader.stdin.fileno(), 1)
main()
"""
    done = on_a_board(code, files['detector'], photo, '--no-library')
    assert (done.returncode, done.stderr) == (UNREAD, '')


@pytest.mark.parametrize(('encoding', 'shown'), [('ascii', r'Bl\xfcte\udce9.jpg'), ('utf-8', r'Blüte\udce9.jpg')])
def test_a_name_with_letters_that_the_terminal_has_not(files, photo, tmp_path, monkeypatch, encoding, shown):
    image = tmp_path / 'Blüte\udce9.jpg'  # the last letter is a byte that is not UTF-8
    shutil.copyfile(photo, image)
    written = io.BytesIO()
    monkeypatch.setattr(sys, 'stdout', io.TextIOWrapper(written, encoding))
    main([str(files['detector']), str(image), '--no-library'])
    assert written.getvalue().decode(encoding).rstrip().endswith(shown)
