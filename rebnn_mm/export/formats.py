"""The kinds of files that the exporter writes."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import track

from .engine_formats import write_bolt, write_lce
from .exporter import Export, export, write
from .report import print_report
from .source import Source

Writer = Callable[[Source, Path, bool, bool, Console], None]
"""Writes a source to a path; the flags are half precision and fusion. What it has to say it prints."""


def write_onnx(source: Source, path: Path, half: bool, fused: bool, console: Console) -> None:
    """Write the packed file of docs/format.md, verified, and print its report.

    Raises:
        ValueError: the model cannot be exported, or its file does not give PyTorch's answer. No file is left.
    """
    result = export(
        source.model,
        preprocess=source.preprocess,
        config=source.config,
        classes=source.classes,
        images=source.images,
        size=source.size,
        half=half,
        fused=fused,
        progress=lambda step: console.print(f'... {step}', highlight=False),
        watch=lambda images: track(images, 'comparing', console=Console(stderr=True), transient=True),
    )
    print_export(result, source, console)
    write(result.data, path)
    console.print(f'Wrote {path}.', highlight=False, soft_wrap=True)


def print_export(result: Export, source: Source, console: Console) -> None:
    """Print what was exported, how large it is, and how it compares with PyTorch."""
    say = lambda text: console.print(text, highlight=False, soft_wrap=True)  # noqa: E731
    print_report(result.report, console)
    if result.task.name == 'raw':
        say(f'The outputs are what the head gives, because {result.task.because}.')
    if result.fixed:
        say(f'The file takes images of one size only ({", ".join(result.fixed)}): the model itself fixes it.')
    for note in source.notes:
        say(note)
    found = result.verification
    flips = found.flipped
    kind = 'given' if source.images else 'random'
    say(
        f'Compared with PyTorch on {found.images} {kind} images: outputs differ by at most {found.difference:.2g}, '
        f'{flips.flipped:,} of {flips.compared:,} signs differ.'
    )
    for layer, (flipped, compared) in found.flips.items():
        if flipped:
            say(f'  {layer}: {flipped:,} of {compared:,}')
    if flips.flipped:
        say('A value next to zero that is rounded differently changes its sign, and the layers behind it follow.')
    if result.task.name == 'classification':
        say(f'Best class the same on {found.top1} of {found.images} images.')
    if result.task.name == 'detection':
        boxes = sum(not entry.missing and not entry.extra for entry in found.detections)
        least = min((entry.iou for entry in found.detections), default=1.0)
        say(
            f'Same detections on {boxes} of {found.images} images; smallest overlap of a box with its own {least:.4f}.'
        )
    if found.library is None:
        say('The library with our kernels is not built, so only the functions inside the file were run.')
    else:
        say(f'With our library and without it: outputs differ by at most {found.library:.2g}.')
    if result.half is not None:
        half = result.half
        top1 = f', best class the same on {half.top1}' if result.task.name == 'classification' else ''
        say(
            f'Half precision against single precision on {half.images} {kind} images: outputs differ by at most '
            f'{half.difference:.2g}{top1}.'
        )


FORMATS: dict[str, Writer] = {'onnx': write_onnx, 'lce': write_lce, 'bolt': write_bolt}
"""The writers by the names that ``tools/export.py --format`` takes."""
