"""Packed models on the Hugging Face hub: ``hf:owner/name`` names one."""

from __future__ import annotations

import html
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from .errors import DeployError, ModelFileError, clean_text, first_sentence
from .metadata import Metadata
from .whole_file import whole_file
from .zoo import ROWS, card_entries, card_of

SCHEME = 'hf:'
FILE = 'model.onnx'
"""Default name of a packed model in a repository."""

TAGS = {
    'classification': 'image-classification',
    'detection': 'object-detection',
    'text-classification': 'text-classification',
}
"""The hub's names of tasks."""

KEYS = ('name', 'licence', *ROWS, 'bytes', 'sample', 'size')
"""Keys that a card may have, as in the zoo's ``cards.json``, and ``licence``, the model's own."""


def in_hub(name: str | PathLike[str]) -> bool:
    """Whether it names a model of the hub."""
    return fspath(name).startswith(SCHEME)


def hub_path(name: str | PathLike[str]) -> Path:
    """The file of a model of the hub, fetched if the cache does not have it.

    Args:
        name: ``hf:owner/name``, with ``@revision`` and ``/file.onnx`` after it where they are wanted. Without a file
            it is ``model.onnx``, else the only packed file there is.

    Raises:
        ModelFileError: huggingface_hub is not installed, or there is no such model or file; one sentence says which.

    Example::

        hub_path('hf:owner/cells@v2/cells-int8.onnx')
    """
    text = fspath(name)
    found = re.fullmatch(r'hf:([\w.-]+/[\w.-]+)(?:@([^/]+))?(?:/(.+))?', text)
    if found is None:
        raise ModelFileError(f'{text} names no model of the hub; write hf:owner/name or hf:owner/name/file.onnx')
    repo, revision, file = found.groups()
    with explain_hub_errors(text, repo):
        from huggingface_hub import HfApi, hf_hub_download
        from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

        try:
            return Path(hf_hub_download(repo, file or FILE, revision=revision))
        except LocalEntryNotFoundError:
            raise
        except EntryNotFoundError:
            there = [one for one in HfApi().list_repo_files(repo, revision=revision) if one.endswith('.onnx')]
        if file is None and len(there) == 1:
            return Path(hf_hub_download(repo, there[0], revision=revision))
    listed = f'only {", ".join(there)}: name one as hf:{repo}/{there[0]}' if there else 'and no other packed file'
    raise ModelFileError(f'{text}: there is no {file or FILE}, {listed}')


def save_pretrained(
    source: str | bytes, metadata: Metadata, folder: str | PathLike[str], card: Mapping[str, Any] | None = None
) -> None:
    """Write a folder as the hub takes it: ``model.onnx`` and ``README.md``, the model's card.

    Args:
        source: path or bytes of the model.
        metadata: what it says about itself.
        folder: made if it does not exist.
        card: what is to be said of it, by the keys of the zoo's cards (``rebnn zoo blood-cells-tiny --json``) and
            ``licence``; None for the zoo's own card where the model is of the zoo.

    Raises:
        ModelFileError: the card has another key, or the folder cannot be written, or holds another model or card.
    """
    folder = Path(folder)
    if card is None:
        card = card_of(source)
    check_card(card)
    text = write_packed_card(metadata, card)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        files = ((FILE, data), ('README.md', text.encode()))
        for name, content in files:
            if (folder / name).exists() and (folder / name).read_bytes() != content:
                raise ModelFileError(f'{folder / name} exists with other content: remove it, or choose a new folder')
        for name, content in files:
            if not (folder / name).exists():
                with whole_file(folder / name) as part:
                    part.write_bytes(content)
    except OSError as error:
        raise ModelFileError(f'{folder} cannot be written ({first_sentence(error)})') from None


def push_to_hub(
    source: str | bytes,
    metadata: Metadata,
    repo: str,
    card: Mapping[str, Any] | None = None,
    *,
    private: bool | None = None,
    token: str | None = None,
    message: str = 'Upload a packed model',
) -> str:
    """Upload what :func:`save_pretrained` writes, and make the repository if there is none.

    Args:
        source: path or bytes of the model.
        metadata: what it says about itself.
        repo: ``owner/name``.
        card: as for :func:`save_pretrained`.
        private: whether a new repository is; None for what the owner has set.
        token: of the hub; None for that of ``hf auth login``.
        message: of the commit.

    Returns:
        The address of the commit.

    Raises:
        ModelFileError: huggingface_hub is not installed, or the hub refuses; one sentence says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        save_pretrained(source, metadata, folder, card)
        with explain_hub_errors(f'{SCHEME}{repo}', repo):
            from huggingface_hub import HfApi

            api = HfApi(token=token)
            api.create_repo(repo, private=private, exist_ok=True)
            return str(api.upload_folder(repo_id=repo, folder_path=folder, commit_message=message))


def check_card(card: Mapping[str, Any]) -> None:
    """Refuse a card that says what no card says, or otherwise."""
    unknown = [key for key in card if key not in KEYS]
    if unknown:
        raise ModelFileError(f'the card has the key {unknown[0]!r}, which is none of {", ".join(KEYS)}')
    scores, data = card.get('scores', {}), card.get('data', {'name': ''})
    if not (isinstance(scores, Mapping) and all(isinstance(value, int | float) for value in scores.values())):
        raise ModelFileError('scores of the card must be numbers by name, such as {"AP": 53.3}')
    if not (isinstance(data, Mapping) and all(isinstance(value, str) for value in data.values()) and 'name' in data):
        raise ModelFileError('data of the card must hold texts: name, and if you like url and licence')


def write_packed_card(metadata: Metadata, card: Mapping[str, Any]) -> str:
    """Write the card of a packed model as the hub's Markdown."""
    lines = ['```shell', "pip install 'rebnn_mm[deploy,hub]'", 'rebnn run hf:OWNER/NAME photo.jpg', '```']
    lines += ['', '```python', 'from rebnn_mm.deploy import load', '']
    lines += ["print(load('hf:OWNER/NAME')('photo.jpg'))", '```']
    about = {'config': metadata.config, **card}
    intro = 'A network with one bit for a weight and an input, packed by rebnn_mm. It runs without PyTorch.'
    return card_text(intro, lines, metadata.task, metadata.classes, about)


def card_text(
    intro: str,
    use: Sequence[str],
    task: str,
    classes: Sequence[str],
    card: Mapping[str, Any],
    tags: Sequence[str] = (),
) -> str:
    """Write a model card: the hub's metadata first, then how to use the model, then what is known of it."""
    classes = [_as_text(name) for name in classes]
    if card.get('config'):
        card = {**card, 'config': _as_text(card['config'])}
    title = card.get('name') or Path(card.get('config') or 'packed model').stem
    front: dict[str, Any] = {'library_name': 'rebnn_mm', 'tags': ['rebnn_mm', 'binary-neural-network', *tags]}
    if task in TAGS:
        front['pipeline_tag'] = TAGS[task]
    if card.get('licence'):
        front['license'] = card['licence']
    data = card.get('data')
    if card.get('scores') and data and task in TAGS:
        metrics = [{'type': name, 'value': value} for name, value in card['scores'].items()]
        place = {'name': data['name'], 'type': data['name']}
        result = {'task': {'type': TAGS[task]}, 'dataset': place, 'metrics': metrics}
        front['model-index'] = [{'name': title, 'results': [result]}]
    # JSON is YAML
    head = ['---', *(f'{key}: {json.dumps(value, ensure_ascii=False)}' for key, value in front.items()), '---']
    rows = [f'| {name} | {text} |' for name, text in card_entries(card, code='`')]
    if classes:
        shown = ', '.join(classes[:20]) + (f' and {len(classes) - 20} more' if len(classes) > 20 else '')
        rows.append(f'| classes | {shown} |')
    table = ['', '| | |', '|---|---|', *rows] if rows else []
    return '\n'.join([*head, '', f'# {title}', '', intro, '', *use, *table, ''])


def _as_text(name: str) -> str:
    """A name from a file in Markdown, where it stays a text."""
    return re.sub(r'([\\`*\[\]|])', r'\\\1', html.escape(clean_text(name), quote=False))


@contextmanager
def explain_hub_errors(name: str, repo: str) -> Iterator[None]:
    """Turns what huggingface_hub raises into one sentence that begins with the name."""
    try:
        from huggingface_hub import errors
    except ImportError:
        raise ModelFileError(
            f"{name}: the hub needs huggingface_hub, which is not installed. Run: pip install 'huggingface_hub>=0.34'"
        ) from None
    try:
        yield
    except errors.GatedRepoError:
        problem = f'its owner lets in who asks: do so on https://huggingface.co/{repo}, then run hf auth login'
    except errors.RepositoryNotFoundError:
        problem = 'the hub has no such model, or it is private: check the name, or run hf auth login'
    except errors.RevisionNotFoundError:
        problem = 'the model has no such revision; without @ it is the newest'
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled):
        problem = 'it is not in the cache, and the hub cannot be reached; check the network, or name a file'
    except (errors.HFValidationError, errors.HfHubHTTPError) as error:
        problem = f'the hub refuses ({first_sentence(error)})'
    except DeployError:
        raise
    # without a network huggingface_hub passes on the error of the HTTP library that it has, old or new
    except Exception as error:
        problem = f'the hub cannot be reached ({first_sentence(error)})'
    else:
        return
    raise ModelFileError(f'{name}: {problem}')
