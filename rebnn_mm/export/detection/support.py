"""Which detectors have a graph for their prediction."""

from importlib.util import find_spec

from torch import nn


def unsupported(model: nn.Module) -> str:
    """Why a model's prediction has no graph of its own; empty if it has.

    The graph does what mmdet's own classes do when they predict. A class that does the same by inheritance is
    supported, whatever it changes besides (BiDet's heads, for example); one that replaces a method on that way is not.

    Args:
        model: of mmdet or another library.

    Returns:
        str: one sentence without the name of the model, or nothing.

    Example:
        >>> unsupported(nn.Conv2d(3, 8, 1))
        'it is no detector of mmdet'
    """
    if find_spec('mmdet') is None:
        return 'it is no detector of mmdet'
    from .mmdet_prediction import reasons

    return next(reasons(model), '')
