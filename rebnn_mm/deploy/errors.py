"""Errors of packed models and images, each said in one sentence."""

import json
import os
import re
from typing import Any

from ..errors import RebnnError

MAX_LENGTH = 600
"""Characters of a message; names in a damaged file can be of any length."""

UNPRINTABLE = re.compile('[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]')
"""Control characters, ends of lines, what turns the direction of writing, and halves of letters."""


def clean_text(text: str) -> str:
    """Replace what a text from a file may not do to a terminal or a page: control characters and half letters."""
    return UNPRINTABLE.sub('\ufffd', text)


class DeployError(RebnnError):
    """A packed model or an image cannot be used; the text names it, says why, and how to go on.

    Example:
        >>> len(str(DeployError('a name of any length from a file: ' + 'a' * 5000)))
        600
    """

    def __init__(self, text: str) -> None:
        text = clean_text(text)
        super().__init__(text if len(text) <= MAX_LENGTH else text[: MAX_LENGTH - 3] + '...')


class ModelFileError(DeployError):
    """A file is not the packed model it should be: missing, damaged, of another format, or wrong when it runs."""


class ImageError(DeployError):
    """An image cannot be read, or does not suit the model."""


class TextError(DeployError):
    """A text or its tokens do not suit the model, or cannot be made into tokens here."""


def check_file(path: str | os.PathLike[str], kind: str, error: type[DeployError], otherwise: str = '') -> None:
    """Check that a path is a file; a text keeps both slashes of a URL, which a ``Path`` has lost."""
    path = os.fspath(path)
    if os.path.isfile(path):
        return
    if os.path.isdir(path):
        raise error(f'{path} is a folder; name the {kind} in it')
    if '://' in path:
        raise error(f'{path} is a URL, which is not fetched; download the {kind} and name the file')
    raise error(f'no {kind} at {path}{otherwise}')


def parse_json(text: str, kind: type, key: str) -> Any:
    """The value of a metadata key that holds a JSON object or list."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise ModelFileError(f'{key} must be a JSON {"object" if kind is dict else "list"}, not {text[:60]!r}')
    return value


def first_sentence(error: BaseException, limit: int = 300) -> str:
    """The first line of an error of another library, short, without prefix, addresses of objects and full stop."""
    text = re.sub(r'^\[ONNXRuntimeError\] : \d+ : \w+ : | <\S+ object at 0x\w+>', '', str(error).strip())
    text = text.replace(' for the following indices\n index:', ', index')  # what is wrong stands in the second line
    line = (text.splitlines() or [type(error).__name__])[0].strip()
    return (line if len(line) <= limit else line[: limit - 3] + '...').rstrip('. ')
