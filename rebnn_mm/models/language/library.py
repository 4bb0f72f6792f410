"""Says in one sentence that transformers is missing or too old."""

from importlib.metadata import PackageNotFoundError, version

from mmengine.utils import digit_version

FIRST_VERSION = '5.0'
"""BERT asks the attention registry from here on; before, it ignores a registered attention without an error."""


def require_transformers() -> None:
    """Check that transformers is there and recent enough.

    Raises:
        ImportError: it is not; the message says what to install.
    """
    try:
        found = version('transformers')
    except PackageNotFoundError:
        raise ImportError(
            f"Encoders of text need transformers: pip install 'transformers>={FIRST_VERSION}'."
        ) from None
    if digit_version(found) < digit_version(FIRST_VERSION):
        raise ImportError(
            f'transformers {found} is too old: its encoders do not use registered attentions. Encoders of text need '
            f"transformers>={FIRST_VERSION}: pip install 'transformers>={FIRST_VERSION}'."
        )
