"""Conditions to quote with a measured number: the processor and the versions of packages."""

import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

CPUINFO = Path('/proc/cpuinfo')


def processor() -> str:
    """The processor's name, as Linux has it."""
    return _first('model name') or platform.processor() or platform.machine()


def processor_flags() -> set[str]:
    """The instructions that an x86 processor has, as Linux names them; none elsewhere."""
    return set(_first('flags').split())


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Python's version, and those of the packages that are installed."""
    found = {'python': platform.python_version()}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def _first(key: str) -> str:
    """Return the first processor's entry of a key."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.is_file() else []
    return next((line.partition(':')[2].strip() for line in lines if line.partition(':')[0].strip() == key), '')
