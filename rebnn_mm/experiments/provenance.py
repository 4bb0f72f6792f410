"""Where a result comes from: commit, machine, versions."""

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

PACKAGES = ('torch', 'onedl-mmengine', 'mmengine', 'onedl-mmdetection', 'mmdet', 'onedl-mmpretrain', 'mmpretrain')


def provenance(root: Path) -> dict[str, Any]:
    """Commit, date, machine, threads and versions, for a record's ``made``.

    Args:
        root: root of the project's clone. Without git ``commit`` is empty.

    Example:
        >>> sorted(provenance(Path('.')))
        ['changed', 'commit', 'date', 'device', 'hardware', 'threads', 'versions']
    """
    return dict(
        commit=_git(root, 'rev-parse', '--short=10', 'HEAD'),
        changed=bool(_git(root, 'status', '--porcelain', '--untracked-files=no')),
        date=datetime.now(timezone.utc).strftime('%Y-%m-%d'),
        hardware=f'{_processor()}, {os.cpu_count()} cores',
        device=torch.cuda.get_device_name(0) if torch.cuda.is_available() else 'cpu',
        threads=os.environ.get('OMP_NUM_THREADS', ''),
        versions=_versions(),
    )


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(['git', *arguments], cwd=root, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ''
    return done.stdout.strip() if done.returncode == 0 else ''


def _processor() -> str:
    info = Path('/proc/cpuinfo')
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.split(':', 1)[1].strip() for line in lines if line.startswith('model name')]
    return names[0] if names else platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    found = {'python': platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
