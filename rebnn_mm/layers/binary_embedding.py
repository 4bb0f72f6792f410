"""The binary embedding that every method shares."""

import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from mmengine.registry import MODELS
from torch import Tensor, nn
from torch.nn import functional

from ..errors import RebnnError
from ..quantizers.builder import QuantizerConfig
from ..utils.options import find_unknown_options
from .base import BinaryLayer


@MODELS.register_module()
class BinaryEmbedding(BinaryLayer, nn.Embedding):
    r"""Embedding with quantized rows; drop-in for :class:`torch.nn.Embedding`.

    .. math:: y_n = \hat w_{i_n}

    Each row is a channel of the weight quantizer. Where that treats every channel by itself and without state
    (``channels_alone``), only the rows that the batch names are quantized. There is no activation quantizer, for the
    input is an index.

    Args:
        num_embeddings, embedding_dim, padding_idx, scale_grad_by_freq, device, dtype: as in ``nn.Embedding``. The
            padding row is quantized as any other, and gets no gradient.
        weight: config of the weight quantizer; ``'default'`` is BiBERT's, None keeps the weight real.
        keep_real: names of layers that keep full precision, as in :class:`BinaryConv2d`; False for none.
        kwargs: ``max_norm``, ``norm_type`` and ``sparse`` of ``nn.Embedding``, with their default values only.

    Shapes: int (...) to (..., embedding_dim).

    Raises:
        ValueError: an option that cannot be honoured; the message says which and why.

    Example:
        >>> import torch
        >>> embedding = BinaryEmbedding(10, 4, padding_idx=0)
        >>> words = embedding(torch.tensor([[1, 2, 0]]))
        >>> words.shape, [len(row.abs().unique()) for row in words[0]]
        (torch.Size([1, 3, 4]), [1, 1, 1])
    """

    method_weight: ClassVar[QuantizerConfig] = 'BiBERTWeight'

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        weight: QuantizerConfig = 'default',
        keep_real: Sequence[str] | Literal[False] = (),
        **kwargs: Any,
    ) -> None:
        for name, why in (
            ('max_norm', 'it would rescale latent weights in the forward pass'),
            ('sparse', 'quantizers and step hooks need the whole gradient'),
        ):
            if kwargs.get(name):
                raise RebnnError(f'{type(self).__name__}: {name}={kwargs[name]} is not supported, because {why}')
        strange = kwargs.keys() - inspect.signature(nn.Embedding).parameters.keys()
        if strange:
            raise find_unknown_options(type(self).__name__, strange, type(self), BinaryEmbedding)
        super().__init__(num_embeddings, embedding_dim, padding_idx, **kwargs)
        self._set_up(weight, None, embedding_dim, -1, keep_real)
        if 'device' in kwargs or 'dtype' in kwargs:
            self.to(device=kwargs.get('device'), dtype=kwargs.get('dtype'))

    def forward(self, indices: Tensor) -> Tensor:
        if self.weight_quantizer is None:
            return super().forward(indices)
        if self.training:
            self._warn_if_not_driven()
        if not self.weight_quantizer.channels_alone:
            return self._rows(indices, self.weight_quantizer(self.weight))
        rows = self._rows(indices, self.weight).view(-1, self.embedding_dim)
        return self.weight_quantizer(rows).view(*indices.shape, self.embedding_dim)

    def _rows(self, indices: Tensor, weight: Tensor) -> Tensor:
        return functional.embedding(
            indices, weight, self.padding_idx, scale_grad_by_freq=self.scale_grad_by_freq, sparse=False
        )
