"""How far a run is, read from what it logs."""

import json
from pathlib import Path
from typing import Any


def log_entries(file: Path) -> list[dict[str, Any]]:
    """The entries of a ``scalars.json``; what a killed run has not written to the end is left out."""
    entries = []
    for line in file.read_text().splitlines():
        try:
            entries.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return entries


def last_checkpoint(work_dir: str | Path) -> Path | None:
    """The checkpoint that a run would go on from, None if there is none."""
    pointer = Path(work_dir, 'last_checkpoint')
    path = Path(pointer.read_text().strip()) if pointer.is_file() else None
    return path.resolve() if path is not None and path.is_file() else None


def finished_epochs(work_dir: str | Path) -> int:
    """Epochs whose checkpoint is there, or, where checkpoints are rarer, that the log has left behind.

    Example:
        >>> import tempfile
        >>> finished_epochs(tempfile.mkdtemp())
        0
    """
    work_dir = Path(work_dir)
    checkpoint = last_checkpoint(work_dir)
    stem = checkpoint.stem if checkpoint else ''
    saved = int(stem.removeprefix('epoch_')) if stem.removeprefix('epoch_').isdigit() else 0
    files = sorted(work_dir.glob('*/vis_data/scalars.json'))
    if not files:
        return saved
    for entry in reversed(log_entries(files[-1])):
        if 'lr' in entry and 'epoch' in entry:
            return max(saved, int(entry['epoch']) - 1)
    return saved
