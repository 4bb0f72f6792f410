"""Label photographs by a detector in an ONNX file, for ``--label-with`` of rebnn new-config and rebnn fit."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from mmengine.config import Config
from torchvision.ops import batched_nms

from rebnn_mm.datasets.annotated_folder import as_coco, read_annotated
from rebnn_mm.datasets.photo_places import Box, Photo, Places, refuse_wrong
from rebnn_mm.deploy import Detections, Detector, load
from rebnn_mm.deploy.errors import first_sentence
from rebnn_mm.deploy.loading import locate_model
from rebnn_mm.deploy.onnx_file import read_onnx
from rebnn_mm.deploy.preprocess import Letterbox, Preprocess
from rebnn_mm.deploy.session import open_session
from rebnn_mm.deploy.whole_file import whole_file
from rebnn_mm.errors import RebnnError, did_you_mean
from rebnn_mm.utils.command_line import check_writable, import_scope

THRESHOLD = 0.4
"""Score from which an object becomes a label."""

STRIDES = (8, 16, 32)
"""Of the levels of YOLOX, in the order of its output."""


def label_images(folder: Path, teacher: str, classes: Sequence[str] = ()) -> str:
    """Write ``labelled.json``, of COCO's form, for all images of a folder, and say what was found.

    A YOLOX of other classes than COCO's 80 has no names: then ``classes`` are its own, in its order.
    """
    out, places, wrong = folder / 'labelled.json', Places(folder.resolve()), list[str]()
    if not places.by_name:
        raise RebnnError(f'there are no images in {folder}.')
    check_writable(out)
    again, labels = out.is_file() and _is_ours(out), out.exists()
    with suppress(RebnnError):
        labels = labels or bool(read_annotated(folder))
    if labels and not again:
        raise RebnnError(f'{folder} has labels, which --label-with would replace.', fix='Leave it out, or move them.')
    find, known = open_teacher(teacher, classes)
    unknown = next((name for name in classes if name not in known), None)
    if unknown is not None:
        near = did_you_mean(unknown, known) or f'It has {", ".join(known)}.'
        raise RebnnError(f'{teacher} does not know the class {unknown!r}.', '--classes', near)
    photos: list[Photo] = []
    for path in sorted(path for paths in places.by_name.values() for path in paths):
        found = [one for one in find(path).at_least(THRESHOLD) if one.name in (classes or known)]
        boxes = [Box(one.name, x, y, right - x, low - y) for one in found for x, y, right, low in [one.box]]
        photos.append(places.photo(path, (0, 0), boxes, wrong))
    refuse_wrong(folder, wrong)
    about = f'labelled by {Path(teacher).name}, scores of at least {THRESHOLD}'
    content = as_coco(photos, classes or known)
    content['info'] = dict(description=about, digest=_digest(content))
    with whole_file(out) as part:
        part.write_text(json.dumps(content))
    counts = Counter(box.name for photo in photos for box in photo.boxes)
    numbers = ', '.join(f'{name} {counts[name]}' for name in classes or known)
    return f'{about}, {len(photos)} images, in {out}: {numbers}'


def _is_ours(path: Path) -> bool:
    """Whether labels are as an earlier call has left them, and not corrected since."""
    try:
        content = json.loads(path.read_bytes())
        return bool(content['info']['digest'] == _digest(content))
    except (ValueError, LookupError, TypeError):
        return False


def _digest(content: dict[str, Any]) -> str:
    about = [content[key] for key in ('images', 'annotations', 'categories')]
    return hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]


def open_teacher(teacher: str, classes: Sequence[str]) -> tuple[Callable[[Path], Detections], Sequence[str]]:
    """The function that finds objects of an image, and the names of all classes."""
    path = Path(locate_model(teacher))
    if not path.is_file():
        raise RebnnError(f'there is no file {path}.', '--label-with')
    if 'rebnn.format' in read_onnx(path.read_bytes()).metadata:
        model = load(teacher)
        if isinstance(model, Detector):
            return model, model.classes
        raise RebnnError(f'{teacher} finds no boxes: it is a {type(model).__name__}.', '--label-with')
    return open_yolox(path, classes)


def open_yolox(path: Path, classes: Sequence[str]) -> tuple[Callable[[Path], Detections], Sequence[str]]:
    """The same of a file with the raw head output of YOLOX, which is decoded here."""
    try:
        session = open_session(str(path), library=False, exact=False)
    except Exception as error:  # its classes have no common base below Exception
        raise RebnnError(f'{path}: ONNX Runtime does not accept it ({first_sentence(error)}).') from None
    ends = session.get_inputs(), session.get_outputs()
    inputs, outputs = ([entry.shape for entry in end] for end in ends)
    lasts = [shape[-1] for shape in inputs + outputs if shape and isinstance(shape[-1], int)]
    side, columns = lasts if len(lasts) == 2 else (0, 0)
    cells = [side // stride for stride in STRIDES]
    points = sum(number**2 for number in cells)
    is_real = all(entry.type == 'tensor(float)' for end in ends for entry in end)
    if inputs != [[1, 3, side, side]] or outputs != [[1, points, columns]] or columns < 6 or not is_real:
        raise RebnnError(
            f'{path} is neither a detector that rebnn export wrote nor the raw output of YOLOX: inputs {inputs}, '
            f'outputs {outputs}, not [1, 3, S, S] and [1, {points or "points"}, 5 + classes] in float32.',
            '--label-with',
        )
    names = list(classes)
    if columns == 85:
        import_scope(Config(dict(default_scope='mmdet')))  # without its notes on what is not installed
        from mmdet.evaluation import get_classes

        names = get_classes('coco')
    if len(names) != columns - 5:
        problem = f'{path} has {columns - 5} classes without names.'
        raise RebnnError(problem, '--classes', 'Name all of them, in its order.')
    corner = np.concatenate([np.stack(np.divmod(np.arange(n * n), n)[::-1], axis=1) for n in cells])
    stride = np.concatenate([np.full((n * n, 1), s) for n, s in zip(cells, STRIDES, strict=True)])
    letterbox = Letterbox(value=(114, 114, 114), size=(side, side))  # the grey that YOLOX fills an image up with
    prepare = Preprocess('bgr', resize=('keep_ratio', side, side), letterbox=letterbox)

    def find(image: Path) -> Detections:
        prepared = prepare(str(image))
        (rows,) = session.run(None, {session.get_inputs()[0].name: prepared.image})[0]
        with np.errstate(over='ignore'):
            centre, half = (rows[:, :2] + corner) * stride, np.exp(rows[:, 2:4]) * stride / 2
        scores = rows[:, 4:5] * rows[:, 5:]
        if not (np.isfinite(half).all() and scores.min() >= 0 and scores.max() <= 1):
            raise RebnnError(f'{path} is no raw output of YOLOX: sizes are no logarithms, or scores not 0 to 1.')
        boxes = prepared.to_original(np.concatenate([centre - half, centre + half], axis=1))
        point, label = np.nonzero(scores >= THRESHOLD)
        given = (torch.from_numpy(each) for each in (boxes[point].astype(np.float32), scores[point, label], label))
        kept = batched_nms(*given, iou_threshold=0.65)
        return Detections(boxes[point], scores[point, label], label, tuple(names))[kept.numpy()]

    return find, names
