"""The packed file of docs/format.md: written, and what is printed about it."""

import math
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from rebnn_mm.deploy.session import half_products

from ...errors import RebnnError
from ...utils.console import plain_console
from ..difference import Difference
from ..exporter import Export, Quantized, export
from ..exporter import write as write_whole
from ..options import Options
from ..report import print_report
from ..report import say as say_on
from ..source import Source
from ..tasks import CLASSIFIED, TEXT, Task
from ..verify import Verification


def write(source: Source, path: Path, options: Options, console: Console) -> None:
    """Write the packed file of docs/format.md, verified, and print its report."""
    result = export(
        source.model,
        options,
        preprocess=source.preprocess,
        tokenizer=source.tokenizer,
        config=source.config,
        classes=source.classes,
        examples=source.examples,
        calibration=source.calibration,
        size=source.size,
        progress=lambda step: say_on(console, f'... {step}'),
        watch=partial(track, description='comparing', console=plain_console(stderr=True), transient=True),
    )
    scores = (
        None if result.int8 is None or source.score is None else scores_of(result.int8, result.data, source, console)
    )
    write_whole(result.data, path)
    print_export(result, source, console)
    if result.half_stem is not None:
        say_on(console, _half_stem_note())
    if options.fast and not any(name in result.data for name in (b'RealRoiAlign', b'RealStem')):
        say_on(
            console,
            '--fast: this model has no stem and no regions that we have a kernel for; ONNX Runtime may use its '
            'blocked layout.',
        )
    if result.int8 is not None:
        print_int8(result, source, scores, console)
    say_on(console, f'Wrote {path}.')
    say_on(console, verdict(result, kind_of(source)))


def print_export(result: Export, source: Source, console: Console) -> None:
    """Print what was exported, how large it is, and how it compares with PyTorch."""
    say = partial(say_on, console)
    print_report(result.report, console)
    if result.task.name == 'raw':
        say(f'The outputs are what the head gives, because {result.task.because}.')
    if result.fixed:
        say(f'The file takes images of one size only ({", ".join(result.fixed)}): the model itself fixes it.')
    for note in source.notes:
        say(note)
    noun, kind = 'texts' if result.task.name == TEXT else 'images', kind_of(source)
    found = result.verification
    flips = found.flipped
    say(
        f'Compared with PyTorch on {found.images} {kind}: outputs differ by at most {found.difference:.2g}, '
        f'{flips.flipped:,} of {flips.compared:,} signs differ.'
    )
    for layer, (flipped, compared) in found.flips.items():
        if flipped:
            say(f'  {layer}: {flipped:,} of {compared:,}')
    if flips.flipped:
        say('A value next to zero that is rounded differently changes its sign, and the layers after it follow.')
        say(
            f'{found.complete} of {found.images} {noun} were compared to the end: there each layer agrees with '
            'PyTorch where it starts from the signs of the file.'
        )
    classified = result.task.name in CLASSIFIED
    if classified:
        say(f'Best class the same on {found.top1} of {found.images} {noun}.')
    if result.task.name == 'detection':
        others = [image for image in found.detections if not image.same]
        say(f'Same detections on {found.images - len(others)} of {found.images} images.')
        if others:
            # Any other cause was refused.
            cause = 'values next to zero changed their signs (near-ties) and the detections follow'
            if not flips.flipped:
                cause = 'boxes have equal scores, of which either may be kept'
            say(
                f'Where they are not, {cause}: '
                f'{sum(image.missing for image in others)} missing, {sum(image.extra for image in others)} new, '
                f'smallest overlap of the others {min(image.iou for image in others):.4f}.'
            )
    if found.library is None:
        say('The library with our kernels is not built, so only the functions inside the file were run.')
    else:
        say(f'With our library and without it: outputs differ by at most {found.library:.2g}.')
    for title, change in (
        ('The file with --fast against the exact one', result.fast),
        ('With --half-stem against the exact one', result.half_stem),
        ('Half precision against single precision', result.half),
    ):
        if change is not None:
            say(f'{title} on {change.images} {kind}: {_tell_difference(change, classified)}.')


def kind_of(source: Source) -> str:
    """Say which examples a source is compared on."""
    if source.tokenizer is not None:
        return f'texts, {len(source.examples)} of them given'
    return source.origin or ('given images' if source.examples else 'random images')


def verdict(result: Export, kind: str) -> str:
    """Say in one line whether a file agrees with PyTorch, or what differs and whether that matters."""
    found = result.verification
    changes = [
        f'{cause} {change}'
        for cause, part in (
            ('rounding', found if found.flipped.flipped else None),
            ('--half-stem', result.half_stem),
            ('--int8', None if result.int8 is None else result.int8.compared or result.int8.change),
            ('--half', result.half),
        )
        if part is not None and (change := _change(result.task, part))
    ]
    told = f'The file agrees with PyTorch on {found.images} {kind}'
    if changes:
        told = (
            f'Layer by layer the file agrees with PyTorch on {found.complete} of {found.images} {kind}, but '
            f'{", ".join(changes)}. What that costs only a score says: rebnn test-packed'
        )
    if result.task.name == 'detection' and not found.boxes:
        told += '. None has a detection, so no box was compared: compare on images with objects'
    if kind == 'random images':
        told += '. Noise says little of photographs: compare on some with --image'
    return f'{told}.'


def _change(task: Task, part: Verification | Difference) -> str:
    """Describe how a change affects an answer; empty if it does not."""
    if task.name in CLASSIFIED:
        others = part.images - part.top1
        return f'changes the best class of {others} of {part.images}' if others else ''
    if task.name == 'detection':
        # an option moves every score a little, rounding does not
        rounding = isinstance(part, Verification)
        others = sum(not image.same if rounding else bool(image.missing or image.extra) for image in part.detections)
        what = 'changes detections' if rounding else 'makes boxes come or go'
        return f'{what} in {others} of {part.images}' if others else ''
    return f'changes outputs by up to {part.difference:.2g}' if part.difference else ''


Scores = tuple[Mapping[str, float], Mapping[str, float]]
"""Scores of the file without --int8, and with it."""


def scores_of(int8: Quantized, data: bytes, source: Source, console: Console) -> Scores:
    """Score a file without --int8 and with it."""
    assert source.score is not None
    say_on(console, '... scoring the file without --int8 and the one with it')
    without, scores = source.score(int8.before), source.score(data)
    # mmdet gives -1 for sizes that no object has, and no scores at all to a detector that finds nothing
    known = {name: score for name, score in without.items() if score > 0}
    if known and all(not scores.get(name, 0.0) >= score / 2 for name, score in known.items()):
        name, score = next(iter(known.items()))
        raise RebnnError(
            f'the file with --int8 is useless: {name} is {scores.get(name, 0.0):.4g} with it and {score:.4g} without. '
            f'{int8.little or "Take --int8-layers heads, or no --int8."}'
        )
    return without, scores


def print_int8(result: Export, source: Source, scores: Scores | None, console: Console) -> None:
    """Print which layers became int8 and why, what that changes, and the scores of both files, if there are any."""
    assert result.int8 is not None
    choices, weight_bits, change, before, little, compared = result.int8
    table = Table(title=f'Full-precision layers, weights of {weight_bits} bits where they are int8')
    for column in ('layer', 'int8', 'because'):
        table.add_column(column, overflow='fold')
    for choice in choices:
        table.add_row(choice.layer, 'int8' if choice.int8 else 'real', choice.because)
    console.print(table)
    classified = result.task.name in CLASSIFIED
    say_on(
        console,
        f'The file with --int8 against the one without on {change.images} calibration images: '
        f'{_tell_difference(change, classified)}. {len(before):,} bytes became {len(result.data):,}.',
    )
    if compared is not None:
        say_on(console, f'The same on {compared.images} {kind_of(source)}: {_tell_difference(compared, classified)}.')
    if little:
        say_on(console, little)
    if scores is not None:
        table = Table('score', 'without --int8', 'with --int8')
        for name in scores[0]:
            table.add_row(name, *(f'{found.get(name, math.nan):.4g}' for found in scores))
        console.print(table)


def _tell_difference(change: Difference, classified: bool) -> str:
    """Say a difference in words."""
    top1 = f', best class the same on {change.top1}' if classified else ''
    lost = sum(boxes.missing + boxes.extra for boxes in change.detections)
    partners = f', {lost} detections without a partner' if change.detections else ''
    return f'outputs differ by at most {change.difference:.2g}{top1}{partners}'


def _half_stem_note() -> str:
    found = half_products()
    if found in ('float16', 'bfloat16'):
        return f"The stem's products were of {found} here; float16 is the finer one, of AArch64."
    return 'This processor has no products of 16-bit numbers, so what --half-stem changes was not measured.'
