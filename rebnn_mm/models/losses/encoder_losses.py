"""Losses between a student and a teacher encoder: what they have in common, and four of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import torch
from mmengine.registry import MODELS
from torch import Tensor
from torch.nn import functional

from ...errors import RebnnError
from .comparison import ComparisonLoss, at_least_float32

_T = TypeVar('_T')


class AttentionRecord(NamedTuple):
    """One attention of one forward pass."""

    query: Tensor  # (B, H, N, d), as key and value: the projections before anything is quantized
    key: Tensor
    value: Tensor
    # (B, H, N, N), products of query and key times the scaling, quantized where the attention does so, before the mask
    scores: Tensor
    mask: Tensor | None  # bool, (B, 1, 1 or N, N), True where a position may be attended to; None for everywhere
    scaling: float  # factor of the scores


class EncoderOutput(NamedTuple):
    """One forward pass of an encoder with L layers."""

    logits: Tensor  # (B, labels)
    hidden_states: tuple[Tensor, ...]  # L + 1 tensors (B, N, D): after the embeddings and after every layer
    attention: list[AttentionRecord]  # L records, in the order of the layers
    mask: Tensor  # bool, (B, N), True for tokens and False for padding


def direction_distance(student: Tensor, teacher: Tensor) -> Tensor:
    r"""Distance of two tensors, each scaled to norm one.

    .. math:: \left\| \frac{S}{\|S\|} - \frac{T}{\|T\|} \right\|

    All norms are Euclidean and over the whole tensor. Computed in float32 at least.
    """
    student, teacher = at_least_float32(student), at_least_float32(teacher)
    tiny = torch.finfo(student.dtype).tiny
    return (student / student.norm().clamp(min=tiny) - teacher / teacher.norm().clamp(min=tiny)).norm()


class EncoderComparisonLoss(ComparisonLoss):
    """Base of the losses between a student and a teacher encoder.

    A subclass implements :meth:`forward`, which takes the ``EncoderOutput`` of both for the same batch and returns
    its terms by name. The teacher's tensors have no gradient.

    Args:
        weight: factor of the loss.
        mask_padding: whether padded tokens are left out, so that a batch gives the same loss however far it is
            padded. False computes what code does that pads every text to one length and does not mask.
    """

    def __init__(self, weight: float = 1.0, mask_padding: bool = True) -> None:
        super().__init__(weight)
        self.mask_padding = mask_padding

    def forward(self, student: EncoderOutput, teacher: EncoderOutput) -> dict[str, Tensor]:
        """The weighted terms, each a scalar whose name begins with ``loss_``."""
        raise NotImplementedError(f'{type(self).__name__} has to implement forward(student, teacher)')

    def layer_pairs(self, student: Sequence[_T], teacher: Sequence[_T], what: str) -> list[tuple[_T, _T]]:
        """Layers of both, side by side."""
        if len(student) != len(teacher):
            raise RebnnError(
                f'{type(self).__name__}: the student has {len(student)} {what}, the teacher {len(teacher)}. Take a '
                'teacher of the same depth, or leave this loss out.'
            )
        return list(zip(student, teacher, strict=True))

    def select_tokens(self, output: EncoderOutput) -> Tensor:
        """Bool (B, N): tokens that count."""
        return output.mask if self.mask_padding else torch.ones_like(output.mask)

    def extra_repr(self) -> str:
        return f'{super().extra_repr()}, mask_padding={self.mask_padding}'


@MODELS.register_module()
class PredictionLoss(EncoderComparisonLoss):
    r"""Compares predictions: cross entropy of class probabilities, or the squared error of a regression.

    .. math::
        L = -\frac{1}{B C} \sum_{b=1}^{B} \sum_{c=1}^{C} p_{bc}^T \log p_{bc}^S
        \qquad \text{or, with one label,} \qquad
        L = \frac{1}{B} \sum_b (y_b^S - y_b^T)^2

    p is the softmax of the logits, at temperature one. Unlike a usual cross entropy this one is divided by the number
    of classes C as well.

    Raises:
        ValueError: in the forward pass, if the student has other labels than the teacher.

    Source: the released codes of TernaryBERT (Zhang et al. 2020), BiBERT (Qin et al. 2022) and BiT (Liu et al. 2022).

    Example:
        >>> def encoded(logits):
        ...     return EncoderOutput(logits, (), [], torch.ones(1, 2, dtype=torch.bool))
        >>> PredictionLoss()(encoded(torch.zeros(1, 2)), encoded(torch.tensor([[0.0, 3.0]])))
        {'loss_pred': tensor(0.3466)}
    """

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__(weight)

    def forward(self, student: EncoderOutput, teacher: EncoderOutput) -> dict[str, Tensor]:
        """``loss_pred``."""
        ours, theirs = at_least_float32(student.logits), at_least_float32(teacher.logits)
        self.check_shapes(ours, theirs, 'logits')
        if ours.shape[1] == 1:
            loss = functional.mse_loss(ours, theirs)
        else:
            loss = -(theirs.softmax(dim=1) * ours.log_softmax(dim=1)).mean()
        return {'loss_pred': self.weight * loss}

    def extra_repr(self) -> str:
        return f'weight={self.weight}'


@MODELS.register_module()
class HiddenStateLoss(EncoderComparisonLoss):
    r"""Compares the hidden states after the embeddings and after every layer.

    .. math::
        L = \sum_{l=0}^{L} \left\| \frac{H_l^S}{\|H_l^S\|} - \frac{H_l^T}{\|H_l^T\|} \right\|
        \qquad \text{or} \qquad
        L = \sum_{l=0}^{L} \overline{(H_l^S - H_l^T)^2}

    The norms are over the whole (B, N, D), the mean over the values of the tokens that count.

    Args:
        form: ``'direction'`` for the first, as in BiBERT's released code, or ``'mse'`` for the second, as in
            TernaryBERT and BiT.
        kwargs: ``weight`` and ``mask_padding``, see :class:`EncoderComparisonLoss`.

    Raises:
        ValueError: ``form`` is neither; in the forward pass, if the student has other layers or another width than
            the teacher.

    Source: Qin et al. 2022 (BiBERT); Zhang et al. 2020 (TernaryBERT).

    Example:
        >>> def encoded(*states):
        ...     return EncoderOutput(states[0], states, [], torch.tensor([[True, False]]))
        >>> ours, theirs = torch.tensor([[[1.0, 0.0], [9.0, 9.0]]]), torch.tensor([[[0.0, 2.0], [0.0, 0.0]]])
        >>> HiddenStateLoss('mse')(encoded(ours, ours), encoded(theirs, theirs))
        {'loss_hidden': tensor(5.)}
    """

    def __init__(self, form: str = 'direction', **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if form not in ('direction', 'mse'):
            raise RebnnError(f"HiddenStateLoss: form={form!r} is unknown; use 'direction' or 'mse'")
        self.form = form

    def forward(self, student: EncoderOutput, teacher: EncoderOutput) -> dict[str, Tensor]:
        """``loss_hidden``."""
        kept = self.select_tokens(student)[:, :, None]
        terms = []
        for ours, theirs in self.layer_pairs(student.hidden_states, teacher.hidden_states, 'hidden states'):
            self.check_shapes(ours, theirs, 'hidden states')
            if self.form == 'direction':
                terms.append(direction_distance(ours * kept, theirs * kept))
            else:
                squares = at_least_float32(ours - theirs).square() * kept
                terms.append(squares.sum() / (kept.sum() * ours.shape[-1]))
        return {'loss_hidden': self.weight * torch.stack(terms).sum()}

    def extra_repr(self) -> str:
        return f'form={self.form!r}, {super().extra_repr()}'


@MODELS.register_module()
class AttentionScoreLoss(EncoderComparisonLoss):
    r"""Compares the attention scores before the softmax, layer by layer.

    .. math:: L = \sum_{layers} \overline{(A^S - A^T)^2}

    The mean is over heads and pairs of tokens that count. Without ``mask_padding`` it is over all pairs, but those
    with a padded key count as agreeing, as in TernaryBERT's released code.

    Args:
        weight: factor of the loss.
        mask_padding: whether padded tokens are left out of the mean.

    Raises:
        ValueError: in the forward pass, if the student has other layers, heads or lengths than the teacher.

    Source: Zhang et al. 2020 (TernaryBERT), attention loss.

    Example:
        >>> def encoded(scores):
        ...     record = AttentionRecord(scores, scores, scores, scores, None, 1.0)
        ...     return EncoderOutput(scores, (), [record], torch.tensor([[True, False]]))
        >>> ours, theirs = torch.tensor([[[[1.0, 5.0], [6.0, 7.0]]]]), torch.zeros(1, 1, 2, 2)
        >>> AttentionScoreLoss()(encoded(ours), encoded(theirs))
        {'loss_scores': tensor(1.)}
    """

    def forward(self, student: EncoderOutput, teacher: EncoderOutput) -> dict[str, Tensor]:
        """``loss_scores``."""
        queries, keys = self.select_tokens(student)[:, None, :, None], student.mask[:, None, None, :]
        terms = []
        for ours, theirs in self.layer_pairs(student.attention, teacher.attention, 'attentions'):
            self.check_shapes(ours.scores, theirs.scores, 'attention scores')
            squares = at_least_float32(ours.scores - theirs.scores).square() * (queries & keys)
            pairs = (queries & (keys if self.mask_padding else torch.ones_like(keys))).sum()
            terms.append(squares.sum() / (pairs * squares.shape[1]))
        return {'loss_scores': self.weight * torch.stack(terms).sum()}


@MODELS.register_module()
class DirectionMatchingLoss(EncoderComparisonLoss):
    r"""Compares the similarity patterns of query, key and value, layer by layer.

    .. math::
        L_F = \sum_{layers} \left\| \frac{P_F^S}{\|P_F^S\|} - \frac{P_F^T}{\|P_F^T\|} \right\|,
        \quad P_F = \frac{F F^T}{\sqrt{d}}, \quad F \in \{Q, K, V\}

    F is the full-precision projection before any sign, (B, H, N, d), of the student too; the norms are over the whole
    (B, H, N, N), so the factor :math:`1 / \sqrt{d}` has no effect. The attention scores themselves are not compared.

    Args:
        weight: factor of the loss.
        mask_padding: whether padded tokens are left out; BiBERT's code has them in.

    Raises:
        ValueError: in the forward pass, if the student has other layers, heads or lengths than the teacher.

    Source: Qin et al. 2022 (BiBERT), Direction-Matching Distillation, as its released code computes it.

    Example:
        >>> def encoded(x):
        ...     record = AttentionRecord(x, x, x, x @ x.mT, None, 1.0)
        ...     return EncoderOutput(x, (), [record], torch.ones(1, 2, dtype=torch.bool))
        >>> x = torch.tensor([[[[1.0, 0.0], [1.0, 0.0]]]])
        >>> DirectionMatchingLoss()(encoded(x), encoded(torch.eye(2).view(1, 1, 2, 2)))['loss_q']
        tensor(0.7654)
    """

    def forward(self, student: EncoderOutput, teacher: EncoderOutput) -> dict[str, Tensor]:
        """``loss_q``, ``loss_k`` and ``loss_v``."""
        kept = self.select_tokens(student)[:, None, :, None]
        pairs = self.layer_pairs(student.attention, teacher.attention, 'attentions')
        losses = {}
        for name in ('query', 'key', 'value'):
            terms = [self._distance(getattr(ours, name), getattr(theirs, name), kept) for ours, theirs in pairs]
            losses[f'loss_{name[0]}'] = self.weight * torch.stack(terms).sum()
        return losses

    def _distance(self, student: Tensor, teacher: Tensor, kept: Tensor) -> Tensor:
        self.check_shapes(student[..., 0], teacher[..., 0], 'queries, keys and values without their last dimension')
        student, teacher = student * kept, teacher * kept
        return direction_distance(student @ student.mT, teacher @ teacher.mT)
