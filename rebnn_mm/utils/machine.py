"""What this processor can do."""

from pathlib import Path

CPUINFO = Path('/proc/cpuinfo')


def processor_flags() -> set[str]:
    """The instructions that an x86 processor has, as Linux names them; none elsewhere."""
    lines = CPUINFO.read_text().splitlines() if CPUINFO.is_file() else []
    return set(next((line.partition(':')[2] for line in lines if line.startswith('flags')), '').split())
