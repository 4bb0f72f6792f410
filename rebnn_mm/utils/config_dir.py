"""Finds the configs that come with the package."""

from pathlib import Path


def get_config_dir() -> Path:
    """Folder of the configs that come with the package: inside it when installed, next to it in a clone.

    Raises:
        FileNotFoundError: neither place holds them.

    Example:
        >>> get_config_dir().name
        'configs'
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / 'configs', package.parent / 'configs'):
        if (folder / '_base_').is_dir():
            return folder
    raise FileNotFoundError(
        f'rebnn_mm: no configs in {package} or beside it. Reinstall the package: pip install --force-reinstall '
        '--no-deps rebnn_mm.'
    )
