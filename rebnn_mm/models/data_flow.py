"""Find which layers of a model lead to which, in one forward pass."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from ..layers.attention import EncoderAttention

ADD = {'add'}
NORM = {'batch_norm', 'group_norm', 'instance_norm', 'layer_norm', 'local_response_norm', 'normalize', 'rms_norm'}
RECTIFIER = {'relu', 'relu6'}
ACTIVATION = RECTIFIER | {
    'celu', 'elu', 'gelu', 'glu', 'hardswish', 'hardtanh', 'leaky_relu', 'mish', 'prelu', 'rrelu', 'selu', 'silu',
    'softplus', 'tanh',
}  # fmt: skip
PRODUCT = {
    'addmm', 'baddbmm', 'bilinear', 'bmm', 'conv1d', 'conv2d', 'conv3d', 'conv_transpose1d', 'conv_transpose2d',
    'conv_transpose3d', 'einsum', 'embedding', 'gru', 'linear', 'lstm', 'matmul', 'mm', 'multi_head_attention_forward',
    'mv', 'rnn_relu', 'rnn_tanh', 'scaled_dot_product_attention',
}  # fmt: skip
ENLARGE = {'interpolate', 'upsample'}
PASSING = ENLARGE | {
    'adaptive_avg_pool1d', 'adaptive_avg_pool2d', 'adaptive_max_pool1d', 'adaptive_max_pool2d', 'alpha_dropout',
    'avg_pool2d', 'bfloat16', 'broadcast_to', 'cat', 'channel_shuffle', 'chunk', 'clone', 'concat', 'concatenate',
    'contiguous', 'detach', 'div', 'divide', 'double', 'dropout', 'dropout1d', 'dropout2d', 'dropout3d', 'expand',
    'expand_as', 'feature_alpha_dropout', 'flatten', 'flip', 'fliplr', 'flipud', 'float', 'gather', 'get', 'getitem',
    'grid_sample', 'half', 'hsplit', 'hstack', 'index_select', 'lp_pool2d', 'masked_fill', 'max_pool1d', 'max_pool2d',
    'mean', 'moveaxis', 'movedim', 'mul', 'multiply', 'narrow', 'native_channel_shuffle', 'neg', 'pad', 'permute',
    'pixel_shuffle', 'pixel_unshuffle', 'ravel', 'repeat', 'repeat_interleave', 'reshape', 'roll', 'rot90', 'select',
    'setitem', 'split', 'squeeze', 'stack', 'sub', 'subtract', 'sum', 'swapaxes', 'swapdims', 't', 'take_along_dim',
    'tensor_split', 'tile', 'to', 'transpose', 'truediv', 'type', 'type_as', 'unbind', 'unflatten', 'unfold',
    'unsqueeze', 'view', 'view_as', 'vstack',
}  # fmt: skip
"""Functions that hand values on: order, size, scale and offset may change. What is in no set ends a path from a layer:
a gate (sigmoid, softmax) or the decoding of a prediction."""

MASK = 'mask'
"""Kind of what a comparison makes: true or false."""

STRAIGHT = {'avg_pool2d', 'clone', 'contiguous', 'div', 'dropout', 'max_pool2d', 'mul', 'to'}
"""The functions among them that lead from a shortcut's convolution to the addition."""


@dataclass(eq=False)
class Node:
    """One tensor of the forward pass."""

    kind: str  # name of the function that made it, 'input' or 'layer'
    parents: list[Node] = field(default_factory=list)  # what it was made of
    children: list[Node] = field(default_factory=list)  # what was made of it
    layer: str = ''  # dotted name, of what a watched layer made


class CannotCopy(ValueError):
    """A model cannot be copied; the sentence says why."""


class DataFlow:
    """How the layers of a model stand to each other."""

    def __init__(
        self, model: nn.Module, layers: Iterable[str], forward: Callable[[nn.Module], Any], images: Iterable[Tensor]
    ) -> None:
        model = _copy_model(model)
        model.eval()  # gives None where a backbone of OpenMMLab's has a train() of its own
        watched = {model.get_submodule(name): name for name in layers}
        self.inputs: dict[str, list[Node]] = {name: [] for name in watched.values()}
        self.outputs: dict[str, list[Node]] = {name: [] for name in watched.values()}
        self._convs_of_one_pixel = {
            name for layer, name in watched.items() if isinstance(layer, nn.Conv2d) and layer.kernel_size == (1, 1)
        }
        recorder = _Recorder({id(layer._parameters.get('weight')): name for layer, name in watched.items()})
        self._reads = recorder.reads
        for image in images:
            recorder.note([image], Node('input'))
        for module in model.modules():
            called = partial(self._note_call, recorder, watched.get(module, ''))
            module.register_forward_hook(called, with_kwargs=True)
        fast_attention = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)  # it calls no layer
        try:
            with torch.no_grad(), torch.random.fork_rng(devices=[]), recorder:
                forward(model)
        finally:
            torch.backends.mha.set_fastpath_enabled(fast_attention)

    def _note_call(
        self, recorder: _Recorder, name: str, module: nn.Module, args: Any, kwargs: Any, output: Any
    ) -> None:
        seen = recorder.find_known(args, kwargs)
        before = seen[:1]
        if isinstance(module, EncoderAttention):  # its signs are functions that PyTorch does not show
            recorder.note(tree_leaves(output), Node('scaled_dot_product_attention', seen))
        elif name:
            node = Node('layer', before, layer=name)
            self.inputs[name] += before
            self.outputs[name].append(node)
            recorder.note(tree_leaves(output), node)
        else:
            # A function that PyTorch does not show, such as mmcv's RoIAlign: its first input counts.
            recorder.note(recorder.find_unknown(output), Node('view', before))

    def was_called(self, name: str) -> bool:
        """Whether the forward pass used the layer."""
        return bool(self.outputs[name])

    def is_read(self, name: str) -> bool:
        """Whether a function outside of the layer used its weight."""
        return len(self.outputs[name]) < self._reads[name]

    def is_first(self, name: str) -> bool:
        """Whether the layer sees the model's input, through whatever functions but no other layer or product."""
        ends = PRODUCT | {MASK}
        seen = _walk(self.inputs[name], lambda node: node.parents if not node.layer and node.kind not in ends else [])
        return any(node.kind == 'input' for node in seen)

    def is_output(self, name: str) -> bool:
        """Whether neither norm, nor activation, nor another product follows."""
        follows = NORM | ACTIVATION | PRODUCT
        return not any(node.layer or node.kind in follows for node in self._behind(name, PASSING | ADD))

    def is_shortcut(self, name: str) -> bool:
        """Whether the layer is a 1x1 convolution that is added to what others made of the same input."""
        if name not in self._convs_of_one_pixel:
            return False
        start, own = self._before(name, PASSING), self.outputs[name]
        return any(_made_by_layers(other, start, own) for other in self._find_added(name, STRAIGHT | NORM))

    def has_shortcut(self, name: str) -> bool:
        """Whether the layer's output is added to its input, or to what a shortcut makes of that."""
        along = PASSING | NORM | ACTIVATION
        start = self._before(name, along)
        for other in self._find_added(name, along):
            behind = _walk([other], lambda node: node.parents if node.kind in along else [])
            shortcuts = {node.layer for node in behind if node.layer and self.is_shortcut(node.layer)}
            if behind & start or any(self._before(shortcut, along) & start for shortcut in shortcuts):
                return True
        return False

    def behind_rectifier(self, name: str) -> bool:
        """Whether all that the layer sees comes out of a ReLU: its signs are one constant without a shift."""
        ends = [node for node in self._before(name, PASSING) if node.kind not in PASSING]
        return bool(ends) and all(node.kind in RECTIFIER for node in ends)

    def _before(self, name: str, along: set[str]) -> set[Node]:
        """Follow the layer's input back through functions of these kinds."""
        return _walk(self.inputs[name], lambda node: node.parents if node.kind in along else [])

    def _behind(self, name: str, along: set[str]) -> set[Node]:
        """Follow the layer's output through functions of these kinds."""
        start = [node for made in self.outputs[name] for node in made.children]
        return _walk(start, lambda node: node.children if node.kind in along else [])

    def _find_added(self, name: str, along: set[str]) -> list[Node]:
        """Find what is added to the layer's output, directly or after functions of these kinds."""
        seen = self._behind(name, along)
        own = seen | set(self.outputs[name])
        return [parent for node in seen if node.kind in ADD for parent in node.parents if parent not in own]


def _copy_model(model: nn.Module) -> nn.Module:
    # What a hook of weight_norm or of pruning has computed cannot be copied with its graph, and is computed again.
    values = [value for module in model.modules() for value in vars(module).values() if isinstance(value, Tensor)]
    memo = {id(value): value.detach().clone() for value in values}
    try:
        return copy.deepcopy(model, memo)
    except Exception as error:
        name, kind = _find_uncopied(model)
        raise CannotCopy(
            f'binarize: {type(model).__name__} cannot be copied, and a copy is what it is run on: {name!r} ({kind}) '
            f'fails with {type(error).__name__}: {error}.'
        ) from error


def _find_uncopied(model: nn.Module) -> tuple[str, str]:
    """Name and class of the innermost module that cannot be copied, the first of them."""
    found = ('', type(model).__name__)
    for name, module in model.named_modules():
        if not found[0] or name.startswith(f'{found[0]}.'):
            try:
                copy.deepcopy(module)
            except Exception:
                found = (name, type(module).__name__)
    return found


class _Recorder(TorchFunctionMode):
    """Notes which tensors every function of PyTorch takes and gives."""

    def __init__(self, weights: dict[int, str]) -> None:
        super().__init__()
        self._weights = weights
        self.reads: Counter[str] = Counter()
        self._nodes: dict[int, Node] = {}
        self._alive: list[Tensor] = []  # a number is given again when its tensor is gone

    def note(self, tensors: Iterable[Any], node: Node) -> None:
        for parent in node.parents:
            parent.children.append(node)
        for tensor in tensors:
            if isinstance(tensor, Tensor):
                self._nodes[id(tensor)] = node
                self._alive.append(tensor)

    def find_known(self, *values: Any) -> list[Node]:
        found = [self._nodes.get(id(value)) for value in tree_leaves(values) if isinstance(value, Tensor)]
        return list(dict.fromkeys(node for node in found if node is not None))

    def find_unknown(self, value: Any) -> list[Tensor]:
        return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor) and id(leaf) not in self._nodes]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        kind = _kind(func)
        if kind == 'hardtanh' and kwargs.get('min_val', -1) >= 0:
            kind = 'relu6'  # as torch.nn.ReLU6 calls it
        if isinstance(out, Tensor) and out.dtype == torch.bool:
            kind = MASK
        if kind.startswith('new') or kind.endswith('like'):
            return out
        made = any(isinstance(leaf, Tensor) for leaf in tree_leaves(out))
        if made and kind not in ('to', 'type_as'):  # these ask for its type
            self.reads.update(self._weights.get(id(leaf), '') for leaf in tree_leaves((args, kwargs)))
        # The places that values are taken from are not handed on.
        parents = self.find_known(args[:1] if kind == 'grid_sample' else (args, kwargs))
        if parents:
            self.note([args[0]] if kind == 'setitem' else tree_leaves(out), Node(kind, parents))
        return out


def _kind(func: Any) -> str:
    """Name a function, alike for ``x + y``, ``x.add_(y)`` and ``torch.add(x, y)``."""
    name = getattr(func, '__name__', '').strip('_')
    for prefix in ('i', 'r'):
        if name in {prefix + known for known in ('add', 'sub', 'mul', 'truediv', 'matmul')}:
            return name[1:]
    return name


def _walk(start: Iterable[Node], following: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """All nodes that can be reached, the first ones included."""
    waiting, seen = list(start), set(start)
    while waiting:
        new = [node for node in following(waiting.pop()) if node not in seen]
        seen.update(new)
        waiting += new
    return seen


def _made_by_layers(node: Node, start: set[Node], not_by: Sequence[Node]) -> bool:
    """Whether other layers lead from one of the first nodes to this one, without enlarging a map on the way."""
    blocked = {*start, *not_by}
    back = _walk([node], lambda node: node.parents if node.kind not in ENLARGE and node not in blocked else [])
    # A layer on the way is one from which the start is reached.
    layers = [node for node in back if node.layer and node not in blocked]
    return any(_walk([layer], lambda node: node.parents if node not in blocked else []) & start for layer in layers)
