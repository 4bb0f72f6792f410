"""Steps of data pipelines."""

from .tokenize_text import TokenizeText

__all__ = ['TokenizeText']
