"""Conditions to quote with a measured number: the processor and the versions of packages."""

import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from rebnn_mm.deploy.measurement import describe_cpu


def processor(root: Path = Path('/')) -> str:
    """The processor's name, as Linux has it."""
    found = describe_cpu(None, root)
    return str(found['cpuinfo'].get('model name') or platform.processor() or found['machine'])


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Python's version, and those of the packages that are installed."""
    found = {'python': platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
