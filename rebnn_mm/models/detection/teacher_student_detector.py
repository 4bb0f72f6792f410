"""A detector that learns from another one."""

import inspect
import reprlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from mmdet.models.dense_heads import AnchorHead
from mmdet.models.dense_heads.base_dense_head import BaseDenseHead
from mmdet.models.detectors.base import BaseDetector
from mmdet.models.roi_heads import StandardRoIHead
from mmdet.models.task_modules.coders import DistancePointBBoxCoder
from mmdet.registry import MODELS as MMDET_MODELS
from mmdet.structures import SampleList
from mmdet.structures.bbox import get_box_tensor
from mmengine.model import ImgDataPreprocessor
from torch import Tensor, nn

from rebnn_mm.layers import BinaryLayer
from rebnn_mm.registry import MODELS

from ...errors import RebnnError
from ..losses.detector_comparison import (
    DetectorComparisonLoss,
    DetectorOutput,
    Points,
    Product,
    Regions,
    Targets,
    is_within,
)
from ..teacher import Call, Calls, ConfiguredTeacher, add_terms, as_maps, note_calls

PLACES = dict(
    points='class scores of a one-stage head (bbox_head)',
    proposals='objectness of a region proposal head (an rpn_head with anchors and sigmoids)',
    regions='regions of a second stage (a StandardRoIHead)',
)
"""Describe what the losses compare."""

UNITS = ('means', 'stds', 'norm_on_bbox')
"""Attributes of coders and heads on which the numbers of a box depend."""


@contextmanager
def watch_layers(model: nn.Module, names: Iterable[str]) -> Iterator[Calls]:
    """Note the calls of layers with their history, also inside of what is otherwise computed a second time."""
    calls = Calls()

    def watch(name: str) -> Any:
        return model.get_submodule(name).register_forward_hook(
            lambda layer, arguments, result: calls.note(name, arguments, result)
        )

    handles = [watch(name) for name in names]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def product_of(layer: Any, call: Call) -> Product:
    """Return the factors of a convolution's call: signs for a binary one, full-precision values for another.

    In the training of some methods the weights are not signs yet.
    """
    (x,), values = call
    if layer.bias is not None:
        values = values - layer.bias.view(-1, 1, 1)
    learned, weight = None, layer.weight
    with torch.no_grad():
        if isinstance(layer, BinaryLayer) and layer.activation_quantizer is not None:
            x = layer.activation_quantizer(x)
    if isinstance(layer, BinaryLayer) and layer.weight_quantizer is not None:
        weight, factor = layer.weight_quantizer.codes(weight)
        if factor is not None:
            learned = factor if isinstance(factor, nn.Parameter) else None
            # Its gradient, if it has one, cancels, as the quotient does not depend on it.
            values = values / factor.view(-1, 1, 1)
        if layer.training and not layer.weight_quantizer.values.same_in_training:
            with torch.no_grad():
                weight = layer.weight_quantizer(layer.weight)
                weight = weight if factor is None else weight / factor.view(-1, 1, 1, 1)
    size = x.detach().float().flatten(1).norm(dim=1) * weight.detach().float().norm()
    return Product(values, size, None if learned is None else learned.flatten())


_taught: dict[tuple[type, type], type] = {}


def build_student(mixin: type, detector: type[BaseDetector]) -> type:
    """Build the class of a student, a detector's own with a teacher; the same one every time."""
    if (mixin, detector) not in _taught:
        content = {'__doc__': mixin.__doc__, '__module__': mixin.__module__}
        _taught[mixin, detector] = type(f'TeacherStudent{detector.__name__}', (mixin, detector), content)
    return _taught[mixin, detector]


def _new(mixin: type, detector: type[BaseDetector]) -> Any:
    made: Any = build_student(mixin, detector)
    return made.__new__(made)


@MODELS.register_module()
class TeacherStudentDetector(ConfiguredTeacher):
    """A detector of mmdet whose losses also compare it with a fixed teacher.

    The model *is* the student and an instance of its class: its parameters, its state dict, its predictions. A
    checkpoint loads into the plain detector and the other way round, and optimizer, EMA, DDP and the number of
    parameters do not know of the teacher (:class:`rebnn_mm.models.teacher.FixedTeacher`). The teacher sees the
    same preprocessed images, and the regions that the student is trained on. Its weights are read when training
    starts, so testing does not need them, nor the teacher's config file.

    Args:
        *args: arguments of the student's class.
        student: that class, ``'FasterRCNN'`` or another detector of mmdet.
        teacher: a config file of a detector, the name of one in a library (``'mmdet::retinanet/...py'``), or the dict
            of a model. A file ``configs/...`` that is not here is the one that comes with the package.
        teacher_checkpoint: its weights, a file or a URL. May be left out where the dict of the teacher has an
            ``init_cfg``.
        losses: configs of :class:`rebnn_mm.models.losses.DetectorComparisonLoss`, whose terms are added to the
            detector's own.
        start_from_teacher: whether training starts from the teacher's weights, which needs a teacher of the same
            blocks and widths with real layers (``conv_cfg=None``). What only the student has, its quantizers, starts
            from them. A checkpoint in ``load_from`` goes over it.
        **kwargs: further arguments of the student's class.

    Raises:
        ValueError: there is nothing to learn from, the teacher has no weights, other classes or another normalisation
            of its images, or a loss compares what one of the two does not have; at the start of training also: the
            teacher's checkpoint does not exist or does not fill it, or the teacher does not fill the student.

    Example:
        >>> def detector(conv_cfg):
        ...     anchors = dict(type='AnchorGenerator', scales=[4], ratios=[1.0], strides=[16])
        ...     return dict(
        ...         backbone=dict(type='BinaryResNet', depth=18, base_channels=8, num_stages=3, strides=(1, 2, 2),
        ...                       dilations=(1, 1, 1), out_indices=(2,), conv_cfg=conv_cfg),
        ...         bbox_head=dict(type='RetinaHead', num_classes=2, in_channels=32, feat_channels=8, stacked_convs=1,
        ...                        anchor_generator=anchors))
        >>> random = dict(type='Kaiming', layer='Conv2d')
        >>> model = TeacherStudentDetector(
        ...     student='SingleStageDetector',
        ...     **detector(dict(type='ReBNNConv2d')),
        ...     teacher=dict(type='SingleStageDetector', **detector(None), init_cfg=random),
        ...     losses=[dict(type='PKDLoss', modules=['backbone'])],
        ... )
        >>> type(model).__name__, [key for key in model.state_dict() if 'teacher' in key]
        ('TeacherStudentSingleStageDetector', [])

    Source: the form of ReActNet's teacher (Liu et al. 2020) for detectors; each loss names its own.
    """

    def __new__(cls, *args: Any, student: str | type | None = None, **kwargs: Any) -> 'TeacherStudentDetector':
        """An instance of the student's class."""
        if issubclass(cls, BaseDetector):
            return super().__new__(cls)
        found = MMDET_MODELS.get(student) if isinstance(student, str) else student
        if not (isinstance(found, type) and issubclass(found, BaseDetector)):
            raise RebnnError(
                f"{cls.__name__}: student={student!r} is not a detector of mmdet. Name the class that the student's "
                "config has as type, such as 'FasterRCNN'."
            )
        return super().__new__(build_student(cls, found))

    def __init__(
        self,
        *args: Any,
        student: str | type | None = None,
        teacher: str | Mapping[str, Any],
        losses: Sequence[Mapping[str, Any]],
        teacher_checkpoint: str | None = None,
        start_from_teacher: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.teacher_losses = self.build_losses(losses, DetectorComparisonLoss)
        if not losses and not start_from_teacher:
            raise self.teacher_error(
                'losses is empty, so nothing is learned from the teacher. Name a loss, or start_from_teacher=True.'
            )
        own: Any = self.data_preprocessor  # type: ignore[attr-defined]
        images = {}
        # One that only moves images to the device leaves open how they are normalised.
        if isinstance(own, ImgDataPreprocessor):
            mean, std = getattr(own, 'mean', None), getattr(own, 'std', None)
            images = dict(mean=mean, std=std, bgr_to_rgb=own._channel_conversion)
        self.build_teacher(teacher, teacher_checkpoint, MMDET_MODELS, images)
        if self.teacher is not None:
            self.check_same_classes(*(getattr(last_head(one), 'num_classes', None) for one in (self, self.teacher)))
        self.start_from_teacher = start_from_teacher
        if self.teacher is None:
            return
        for loss in self.teacher_losses:
            self._check_loss(loss)
        if any(map(_is_binary, self.modules())):  # type: ignore[attr-defined]
            self._check_layers()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """How to pickle and copy an instance of a class that is made at run time."""
        if type(self) in _taught.values():
            return _new, type(self).__bases__, self.__dict__
        return super().__reduce_ex__(protocol)

    def loss(self, batch_inputs: Tensor, batch_data_samples: SampleList) -> dict[str, Any]:
        """The detector's own losses and those that compare it with the teacher; terms of one name are added."""
        self.prepare_teacher()
        student: Any = self
        needs, maps = self._list_compared()
        names = set(maps)
        if 'points' in needs:
            names |= {'bbox_head'}
        if 'proposals' in needs:
            names |= {'rpn_head', 'rpn_head.get_targets'}
        if 'regions' in needs:
            names |= {'roi_head._bbox_forward', 'roi_head.bbox_head.get_targets'}
        layers = self._list_compared_layers()
        self._check_not_compiled(layers)
        with note_calls(student, names) as calls, watch_layers(student, layers) as passes:
            losses: dict[str, Any] = super().loss(batch_inputs, batch_data_samples)  # type: ignore[misc]
        self.check_called(names | set(layers), calls.keys() | passes.keys())
        results = {name: made[-1].result for name, made in calls.items()}
        ours = _output(student, results, needs, {name: calls[name] for name in maps}, passes)
        self.check_history(ours.maps)
        rois = None
        if 'regions' in needs:
            features, rois = calls['roi_head._bbox_forward'][-1].arguments[:2]
            # A teacher that is asked about further images would read beyond its maps.
            if len(features[0]) != len(batch_inputs):
                raise self.teacher_error(
                    f'the student makes maps of {len(features[0])} images from {len(batch_inputs)} (branches, as of '
                    'TridentNet), so the teacher cannot look at its regions. Leave out the losses that compare them.'
                )
        theirs = self._teacher_output(batch_inputs, rois)
        targets = Targets(
            objects=[get_box_tensor(sample.gt_instances.bboxes) for sample in batch_data_samples],
            size=(int(batch_inputs.shape[-2]), int(batch_inputs.shape[-1])),
            regions=rois,
            region_labels=results['roi_head.bbox_head.get_targets'][0] if 'regions' in needs else None,
            # Weights of zero are those of anchors that were not drawn.
            sampled=torch.cat(results['rpn_head.get_targets'][1], dim=1) > 0 if 'proposals' in needs else None,
        )
        for loss in self.teacher_losses:
            add_terms(losses, loss(ours, theirs, targets))
        return losses

    @torch.no_grad()
    def _teacher_output(self, images: Tensor, rois: Tensor | None) -> DetectorOutput:
        """Run the teacher on a batch, and on the student's regions (R, 5)."""
        teacher = self.teacher.eval()
        needs, maps = self._list_compared()
        results: dict[str, Any] = {}
        layers = self._list_compared_layers()
        # A head runs for what it predicts, and for what is in it.
        heads = {name.partition('.')[0] for name in (*maps, *layers)}
        with note_calls(teacher, maps) as calls, watch_layers(teacher, layers) as passes:
            features = teacher.extract_feat(images)
            if 'points' in needs or 'bbox_head' in heads:
                # The form that losses are computed of; some heads (FCOS) scale their boxes for predictions.
                teacher.bbox_head.training = True
                results['bbox_head'] = teacher.bbox_head(features)
                teacher.bbox_head.training = False
            if 'proposals' in needs or 'rpn_head' in heads:
                results['rpn_head'] = teacher.rpn_head(features)
            if rois is not None:
                results['roi_head._bbox_forward'] = teacher.roi_head._bbox_forward(features, rois)
        self.check_called({*maps, *layers}, calls.keys() | passes.keys(), 'the teacher')
        return _output(teacher, results, needs, calls, passes)

    def _list_compared(self) -> tuple[set[str], list[str]]:
        """Fields of :class:`DetectorOutput`, and names of modules, that the losses compare."""
        losses: Any = self.teacher_losses
        needs = {place for loss in losses for place in places_of(loss)}
        return needs, list(dict.fromkeys(name for loss in losses for name in loss.compared))

    def _list_compared_layers(self) -> list[str]:
        """List the binary layers that are compared one by one."""
        student: Any = self
        parts = {part for loss in student.teacher_losses for part in loss.parts}
        return [name for name, layer in student.named_modules() if _is_binary(layer) and is_within(name, parts)]

    def prepare_teacher(self) -> None:
        """Prepare the teacher; layers may have become binary since the model was built."""
        if not self.teacher_ready and self.teacher is not None:
            self._check_layers()
        super().prepare_teacher()

    def _check_layers(self) -> None:
        """Refuse layers that cannot be compared one by one."""
        student: Any = self
        for part in sorted({part for loss in student.teacher_losses for part in loss.parts}):
            if not any(map(_is_binary, student.get_submodule(part).modules())):
                raise self.teacher_error(
                    f'binary layers of {part} are to be compared, and it has none. Name another part.'
                )
        modules = dict(self.teacher.named_modules())
        for name in self._list_compared_layers():
            layer = student.get_submodule(name)
            kind = type(layer)
            if not issubclass(kind, nn.Conv2d):
                raise self.teacher_error(
                    f'the layer {name} is compared, and is a {kind.__name__}, where only convolutions can be. '
                    'Name other parts, without it.'
                )
            for part in _list_enclosing(name):
                if getattr(student.get_submodule(part), 'with_cp', False):
                    raise self.teacher_error(
                        f'the layer {name} is compared, and {part} computes it a second time for the backward pass. '
                        'Set with_cp=False there, or take the loss of its layers out of losses.'
                    )
            if layer.weight_quantizer is not None and not layer.weight_quantizer.values.has_codes:
                raise self.teacher_error(
                    f'the layer {name} is compared, and {type(layer.weight_quantizer).__name__} gives it no signs '
                    'with a factor. Take another method, or the loss of its layers out of losses.'
                )
            theirs = modules.get(name)
            if not isinstance(theirs, nn.Conv2d) or theirs.weight.shape != layer.weight.shape:
                raise self.teacher_error(
                    f'the layer {name} is compared, and the teacher has no convolution of this name and shape. Take '
                    'a teacher of the same blocks and widths with conv_cfg=None.'
                )

    def _check_not_compiled(self, layers: Sequence[str]) -> None:
        student: Any = self
        for name in layers:
            for part in _list_enclosing(name):
                if student.get_submodule(part)._compiled_call_impl is not None:
                    raise self.teacher_error(
                        f'the layer {name} is compared, and cannot be seen in {part}, which is compiled. Take the '
                        'CompileHook of that part, or the loss of its layers, out of the config.'
                    )

    def _check_loss(self, loss: Any) -> None:
        name = type(loss).__name__
        self.check_modules(name, (*loss.compared, *loss.parts))
        models: dict[str, Any] = dict(student=self, teacher=self.teacher)
        for who, model in models.items():
            for place in places_of(loss):
                if not has_place(model, place):
                    raise self.teacher_error(
                        f'{name} compares {PLACES[place]}, which the {who} does not have. Leave this loss out'
                        f'{", or take a teacher of the same kind" if who == "teacher" else ""}.'
                    )
        ours, theirs = (meaning_of(model, loss) for model in (self, self.teacher))
        for what in ours:
            # Scores of cells and of one anchor in each can be compared.
            if ours[what] and theirs[what] and ours[what] != theirs[what]:
                pair = ', those of the teacher '.join(map(reprlib.repr, (ours[what], theirs[what])))
                raise self.teacher_error(
                    f'{name} compares what heads predict, and the {what} of the student are {pair}. Take a teacher '
                    'with the same ones, or leave this loss out.'
                )


def _is_binary(layer: nn.Module) -> bool:
    return isinstance(layer, BinaryLayer) and layer.binary


def _list_enclosing(name: str) -> list[str]:
    """List a module and all that it is in, outermost first."""
    steps = name.split('.')
    return ['.'.join(steps[:end]) for end in range(1, len(steps) + 1)]


def _output(
    model: Any,
    results: Mapping[str, Any],
    needs: set[str],
    maps: Mapping[str, list[Call]],
    layers: Mapping[str, list[Call]],
) -> DetectorOutput:
    regions = results.get('roi_head._bbox_forward')
    return DetectorOutput(
        maps={name: as_maps(_seen_by_both(name, calls)) for name, calls in maps.items()},
        points=points_of(model.bbox_head, results['bbox_head']) if 'points' in needs else None,
        proposals=points_of(model.rpn_head, results['rpn_head']) if 'proposals' in needs else None,
        regions=None if regions is None else Regions(regions['cls_score'], regions['bbox_pred']),
        layers={
            name: [product_of(model.get_submodule(name), call) for call in _seen_by_both(name, calls)]
            for name, calls in layers.items()
        },
    )


def _seen_by_both(name: str, calls: list[Call]) -> list[Call]:
    """The calls that both detectors make: the second stage runs again, for masks, where the teacher is not asked."""
    return calls[:1] if is_within(name, ['roi_head']) else calls


def places_of(loss: DetectorComparisonLoss) -> list[str]:
    """Fields of :class:`DetectorOutput` that have to be there; modules of ``roi_head`` run on its regions."""
    regions = loss.needs == 'regions' or any(
        name.partition('.')[0] == 'roi_head' for name in (*loss.compared, *loss.parts)
    )
    return [place for place in PLACES if place == loss.needs or (place == 'regions' and regions)]


def has_place(model: Any, place: str) -> bool:
    """Whether a detector has what is compared there, in a form that can be."""
    if place == 'regions':
        head = getattr(model, 'roi_head', None)
        # Others have more scores than classes and one for the background (SeesawLoss).
        own_classes = getattr(getattr(head, 'bbox_head', None), 'custom_cls_channels', False)
        return isinstance(head, StandardRoIHead) and not own_classes
    if place == 'points':
        head = getattr(model, 'bbox_head', None)
        if not isinstance(head, BaseDenseHead):
            return False
        # TOOD's head gives probabilities, where others give what a sigmoid makes them of.
        logits = not getattr(getattr(head, 'loss_cls', None), 'activated', False)
        # Where objectness is another output (YOLOX, AutoAssign), class scores of the background mean nothing.
        alone = 'objectnesses' not in inspect.signature(head.loss_by_feat).parameters
        return hasattr(head, 'cls_out_channels') and logits and alone
    head = getattr(model, 'rpn_head', None)
    # Others sample otherwise, and give something else for weights of the sampled anchors.
    plain = isinstance(head, AnchorHead) and type(head).get_targets is AnchorHead.get_targets
    return plain and getattr(head, 'use_sigmoid_cls', False)


def meaning_of(model: Any, loss: DetectorComparisonLoss) -> dict[str, Any]:
    """Settings that the compared numbers depend on, in addition to their shape."""
    head: Any = model.rpn_head if loss.needs == 'proposals' else last_head(model)
    meaning: dict[str, Any] = {}
    if loss.needs in ('points', 'proposals'):
        priors = getattr(head, 'prior_generator', None)
        meaning['strides'] = [tuple(stride) for stride in getattr(priors, 'strides', ())]
        meaning['anchors'] = [base.tolist() for base in getattr(priors, 'base_anchors', ())]
    if loss.boxes:
        coder = getattr(head, 'bbox_coder', None)
        named = {key: getattr(part, key) for key in UNITS for part in (coder, head) if hasattr(part, key)}
        # A config gives lists where a class has tuples for default.
        units = {key: tuple(value) if isinstance(value, list) else value for key, value in named.items()}
        meaning['units of boxes'] = [type(coder).__name__, units]
    return meaning


def last_head(model: Any) -> Any:
    """The head that tells classes."""
    return getattr(getattr(model, 'roi_head', model), 'bbox_head', None)


def points_of(head: Any, predictions: Sequence[Sequence[Tensor]]) -> Points:
    """Every level's (N, anchors * values, H, W) as one (N, points, values)."""
    classes = head.cls_out_channels
    scores, boxes = predictions[0], predictions[1]
    if not all(isinstance(level, Tensor) for level in (*scores, *boxes)):
        raise RebnnError(
            f'{type(head).__name__} predicts a level in several tensors, which is not compared. Leave the losses of '
            'its scores and boxes out, or compare maps.'
        )
    anchors = [level.shape[1] // classes for level in scores]
    sizes = [level.shape[1] // count for level, count in zip(boxes, anchors, strict=True)]

    def by_point(levels: Sequence[Tensor], values: Sequence[int]) -> Tensor:
        return torch.cat(
            [x.permute(0, 2, 3, 1).reshape(len(x), -1, size) for x, size in zip(levels, values, strict=True)], dim=1
        )

    values = by_point(boxes, sizes)
    if isinstance(getattr(head, 'bbox_coder', None), DistancePointBBoxCoder) and values.shape[-1] == 4:
        # In pixels, the gradient of a distance exp(x) grows with it, and large boxes make a training diverge.
        values = values.sign() * values.abs().log1p()
    return Points(by_point(scores, [classes] * len(scores)), values, head.use_sigmoid_cls)
