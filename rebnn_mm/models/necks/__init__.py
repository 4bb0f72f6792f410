"""Necks between a backbone and a linear classifier."""

from .flatten_neck import FlattenNeck

__all__ = ['FlattenNeck']
