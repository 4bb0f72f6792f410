"""Check a packed model that a tool for ONNX files has changed, and seal it again.

    rebnn seal changed.onnx -o sealed.onnx

It checks the metadata, the SHA-256 of each packed weight, operators and functions, and that ONNX Runtime takes the
file. It cannot check the full-precision numbers: to compare scores, use rebnn test-packed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import CommandParser, report_errors
from .errors import DeployError, ModelFileError, check_file, first_sentence
from .loading import load
from .onnx_file import remove_seal, seal
from .whole_file import whole_file


def reseal(path: Path, out: Path) -> None:
    """Check a changed file and write it with a seal that fits."""
    check_file(path, 'packed model', ModelFileError)
    try:
        data = seal(remove_seal(path.read_bytes()))
        load(data, use_library=False)
        with whole_file(out) as part:
            part.write_bytes(data)
    except DeployError as error:
        raise ModelFileError(f'{path}: {error}') from None
    except OSError as error:
        raise ModelFileError(f'{path} cannot be sealed ({first_sentence(error)})') from None


@report_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """The command ``rebnn seal``."""
    parser = CommandParser(prog='rebnn seal', description=__doc__)
    parser.add_argument('model', type=Path, help='packed model that a tool has changed')
    parser.add_argument('-o', '--out', type=Path, help='file to write; default: the same file')
    args = parser.parse_args(arguments)
    reseal(args.model, args.out or args.model)
    print(f'sealed: {args.out or args.model}')
