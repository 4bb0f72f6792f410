"""Tells binary layers the name they are given inside a model, while the model is being built."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook


class Named:
    """Base of a module that wants to know its dotted name."""

    def take_name(self, name: str) -> None:
        """Receive the name as known so far; called again with a longer one when a parent gets a parent."""
        raise NotImplementedError(f'{type(self).__name__} has to implement take_name(name)')


_watching = False


def watch_names() -> None:
    """Start telling modules that are :class:`Named` what they are called.

    A config hands a convolution its sizes but never its name, and shortcuts can often be told by their name only.
    PyTorch calls a registration hook for every module that is given to another one, from the inside out, so a layer
    learns ``0``, then ``downsample.0``, then ``layer2.0.downsample.0`` and so on, in training and in testing alike.
    """
    global _watching
    if not _watching:
        register_module_module_registration_hook(_tell_name)
        _watching = True


def _tell_name(parent: nn.Module, name: str, child: nn.Module | None) -> None:
    if child is None:
        return
    for inner, module in child.named_modules():
        if isinstance(module, Named):
            module.take_name(f'{name}.{inner}' if inner else name)


def name_matches(name: str, patterns: Iterable[str]) -> str | None:
    """The first pattern that names the layer, or None.

    A pattern is one component of the dotted name or several in a row; each may hold ``*`` and ``?``.

    Args:
        name: dotted name of a layer.
        patterns: such as ``'downsample'``, ``'layer1.*.conv1'``, ``'neck.lateral_convs.0.conv'``.

    Example:
        >>> name_matches('backbone.layer2.0.downsample.0', ['conv1', 'downsample'])
        'downsample'
        >>> name_matches('backbone.layer2.0.conv1', ['layer2.*.conv1'])
        'layer2.*.conv1'
        >>> name_matches('backbone.layer2.0.conv1', ['layer', 'conv'])
    """
    parts = name.split('.')
    for pattern in patterns:
        wanted = pattern.split('.')
        for start in range(len(parts) - len(wanted) + 1):
            if all(fnmatchcase(part, want) for part, want in zip(parts[start:], wanted, strict=False)):
                return pattern
    return None
