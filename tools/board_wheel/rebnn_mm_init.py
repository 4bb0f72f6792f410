"""The part of rebnn_mm that runs packed models: :mod:`rebnn_mm.deploy`."""

from .version import __version__

__all__ = ['__version__']
