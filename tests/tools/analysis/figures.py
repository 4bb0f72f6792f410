"""What a figure has to be, and a recorded run to draw."""

from itertools import combinations
from pathlib import Path
from unittest import mock

from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.engine.small_runner import SmallClassifier, trained

CLIPPED = 1.0
"""Pixels that text may reach beyond the figure by rounding."""


def recorded_run(work_dir: Path) -> Path:
    """A run of three epochs with channels 0 and 5 of its second binary layer recorded after each."""
    recorder = {'type': 'BinaryWeightRecorderHook', 'layers': ['conv2'], 'channels': [0, 5], 'every': 1}
    trained(
        work_dir,
        SmallClassifier(),
        epochs=3,
        custom_hooks=[{'type': 'ReBNNHook'}, recorder],
        optim_wrapper={'optimizer': {'type': 'Adam', 'lr': 0.05}},
    )
    return work_dir


def drawn_texts(figure: Figure) -> list[Text]:
    """The texts that drawing shows; a figure also holds tick labels beyond its axes' limits, which it does not."""
    texts = []
    draw = Text.draw

    def note(text: Text, renderer: object) -> None:
        if text.get_visible() and text.get_text().strip():
            texts.append(text)
        draw(text, renderer)

    with mock.patch.object(Text, 'draw', note):
        figure.canvas.draw()
    return texts


def assert_no_text_is_clipped_or_overlaps(figure: Figure) -> None:
    """Every text lies inside the figure, and none on another."""
    figure.canvas.draw()  # the layout is found while drawing
    width, height = figure.bbox.width, figure.bbox.height
    boxes = [(text.get_text(), text.get_window_extent()) for text in drawn_texts(figure)]
    assert len(boxes) > 5
    for name, box in boxes:
        inside = min(box.x0, box.y0, width - box.x1, height - box.y1) >= -CLIPPED
        assert inside, f'{name!r} reaches beyond the figure: {box}'
    for (name, box), (other_name, other) in combinations(boxes, 2):
        apart = box.x1 <= other.x0 or other.x1 <= box.x0 or box.y1 <= other.y0 or other.y1 <= box.y0
        assert apart, f'{name!r} and {other_name!r} overlap'
