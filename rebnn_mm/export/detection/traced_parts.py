"""The parts of a detector that are traced, and what any other model gives."""

from typing import Any

import onnx
import torch
from torch import Tensor, nn

from ...errors import RebnnError
from ..trace import trace_images

EXAMPLE_SIZE = (320, 352)
"""Height and width of the image with which a model is traced."""

Maps = tuple[Tensor, ...]


class ImageStage(nn.Module):
    """Backbone, neck and dense head; their names are those in the detector, so that graph and model agree on them.

    Shapes: image (N, C, H, W) to two tuples: the head's maps, first one per level of class logits, then as many of
    boxes, then of centre-ness if the head has it; and, of a two-stage detector, the feature maps, one per level.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.backbone = model.backbone
        self.neck = model.neck if model.with_neck else nn.Identity()
        self.two_stage = two_stage(model)
        if self.two_stage:
            self.rpn_head = model.rpn_head
        else:
            self.bbox_head = model.bbox_head

    def forward(self, image: Tensor) -> tuple[Maps, Maps]:
        features = tuple(self.neck(self.backbone(image)))
        if self.two_stage:
            return _flat(self.rpn_head(features)), features
        return _flat(self.bbox_head(features)), ()


class RegionStage(nn.Module):
    """Shared head and box head of a two-stage detector.

    Shapes: pooled regions (R, C, h, w) to logits (R, classes + 1) and deltas (R, 4) or (R, 4 * classes).
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.roi_head = model.roi_head

    def forward(self, regions: Tensor) -> Maps:
        if self.roi_head.with_shared_head:
            regions = self.roi_head.shared_head(regions)
        return tuple(self.roi_head.bbox_head(regions))


def two_stage(model: nn.Module) -> bool:
    """Whether a detector has a second stage, which looks at regions."""
    return getattr(model, 'roi_head', None) is not None and getattr(model, 'rpn_head', None) is not None


class _Reached(Exception):
    """An image has come to the first convolution."""


def image_channels(model: nn.Module) -> int:
    """How many channels the images have that a model takes; 3 if no convolution tells it.

    An image of three channels is sent to the first convolution that the model calls. What comes before that may give
    it more of them, as YOLOX's stem does, which cuts it into squares.
    """
    convs = [layer for layer in model.modules() if isinstance(layer, nn.Conv2d)]

    def stop(conv: Any, args: tuple[Tensor, ...]) -> None:
        raise _Reached(3 * conv.in_channels // args[0].shape[1])

    hooks = [conv.register_forward_pre_hook(stop) for conv in convs]
    try:
        with torch.no_grad():
            model(torch.zeros(1, 3, *EXAMPLE_SIZE))
    except _Reached as reached:
        return int(reached.args[0])
    except Exception:  # of the model: it wants more than an image, or another one
        pass
    finally:
        for hook in hooks:
            hook.remove()
    return convs[0].in_channels if convs else 3


def example_image(model: nn.Module) -> Tensor:
    """A black image, (1, C, H, W), with the channels that the model takes."""
    return torch.zeros(1, image_channels(model), *EXAMPLE_SIZE)


def _flat(kinds: Any) -> Maps:
    return tuple(level for kind in kinds for level in kind)


def raw_graph(model: nn.Module, image: Tensor) -> onnx.ModelProto:
    """Write the graph of a model that is neither a classifier nor a supported detector, up to its head's outputs.

    A one-stage detector gives the maps of its head, a model of mmpretrain what its ``mode='tensor'`` gives. Of a
    detector with a second stage that is not supported there are the maps of the proposal head and the feature maps:
    what comes after them depends on the proposals. A model that refuses the image of :func:`example_image` gets a
    graph for the size of the one that is given.
    """
    module: nn.Module = ImageStage(model) if two_stage(model) else model
    # A dimension that is 1 in the example would be taken for a fixed one.
    given = image.expand(2, -1, -1, -1)
    refused: Exception | None = None
    for example in (example_image(model).expand(2, -1, -1, -1), given):
        try:
            with torch.no_grad():
                outputs = module(example)
        except Exception as error:
            refused = error
            continue
        names = _names('output', outputs, type(model).__name__)
        return trace_images(module, example, names, any_size=example is not given, fixed=given)
    raise RebnnError(
        f'{type(model).__name__} gives no output for an image alone: {str(refused) or type(refused).__name__}',
        fix='Export a module whose forward takes images only, such as its backbone.',
    ) from refused


def _names(name: str, value: Any, model: str) -> list[str]:
    if isinstance(value, Tensor):
        return [name]
    if isinstance(value, tuple | list):
        return [inner for i, x in enumerate(value) for inner in _names(f'{name}_{i}', x, model)]
    raise RebnnError(
        f'{model} gives a {type(value).__name__} as {name}, which a graph does not hold. Export a module whose '
        'forward returns tensors: of a torchvision detector, its backbone and head (docs/plain_pytorch.md).'
    )
