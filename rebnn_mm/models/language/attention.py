"""Puts our attention into Hugging Face encoders, and listens to what any attention computes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import torch
from mmengine.utils import digit_version
from torch import Tensor, nn

from ...errors import RebnnError
from ...layers.attention import EncoderAttention
from ...registry import find_class
from ...utils.options import check_options
from ..losses.encoder_losses import AttentionRecord

if TYPE_CHECKING:
    from transformers import PreTrainedModel

IMPLEMENTATION = 'rebnn'
"""Our name in transformers' registries of attentions and of attention masks."""

CHILD = 'binary_attention'
"""Our module inside an attention module of transformers."""

FIRST_VERSION = '5.0'
"""BERT asks the attention registry from here on; before, it ignores a registered attention without an error."""

_records: ContextVar[list[AttentionRecord] | None] = ContextVar('records', default=None)
_visited: ContextVar[dict[nn.Module, tuple[int, int]] | None] = ContextVar('visited', default=None)


def require_transformers() -> None:
    """Check that transformers is there and recent enough."""
    try:
        found = version('transformers')
    except PackageNotFoundError:
        raise ImportError(
            f"Encoders of text need transformers: pip install 'transformers>={FIRST_VERSION}'."
        ) from None
    if digit_version(found) < digit_version(FIRST_VERSION):
        raise ImportError(
            f'transformers {found} is too old: its encoders do not use registered attentions. Encoders of text need '
            f"transformers>={FIRST_VERSION}: pip install 'transformers>={FIRST_VERSION}'."
        )


@contextmanager
def record_attention() -> Iterator[list[AttentionRecord]]:
    """Collect an :class:`AttentionRecord` of every attention that is computed inside, in the order of the layers.

    It works for models that :func:`install_attention` has seen, with and without binary attention. The tensors are
    those of the forward pass, with their gradients. Each thread has its own list.

    Example:
        >>> from transformers import BertConfig, BertForSequenceClassification
        >>> sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
        >>> model = BertForSequenceClassification(BertConfig(vocab_size=100, **sizes))
        >>> install_attention(model, dict(type='BinaryAttention'))
        ['bert.encoder.layer.0.attention.self', 'bert.encoder.layer.1.attention.self']
        >>> with record_attention() as records:
        ...     logits = model(torch.tensor([[2, 10, 11, 3]])).logits
        >>> len(records), records[0].query.shape, records[0].scores.shape
        (2, torch.Size([1, 2, 4, 16]), torch.Size([1, 2, 4, 4]))
    """
    records: list[AttentionRecord] = []
    token = _records.set(records)
    try:
        yield records
    finally:
        _records.reset(token)


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Attend as transformers' ``AttentionInterface`` does, by the module's ``binary_attention`` if it has one."""
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        raise TypeError(
            f'{IMPLEMENTATION!r} attention: the mask is of {attention_mask.dtype}, but must be bool, True where a '
            'position may be attended to. Pass attention_mask as the tokenizer gives it, (batch, length).'
        )
    visited = _visited.get()
    if visited is not None:
        visited[module] = (query.shape[1], query.shape[-1])
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    own = module._modules.get(CHILD)
    records = _records.get()
    weights: Tensor | None
    if own is not None:
        output, scores, weights = own(query, key, value, attention_mask, dropout, scaling)
    else:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        output, weights = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=False
        )
        scores = torch.matmul(query, key.transpose(-1, -2)) * scaling if records is not None else None
    if records is not None:
        records.append(AttentionRecord(query, key, value, scores, attention_mask, scaling))
    return output, weights


def install_attention(model: 'PreTrainedModel', attention: Mapping[str, Any] | None) -> list[str]:
    """Give every attention of a Hugging Face encoder a quantizing one, or only make it audible.

    The attention modules are those that ask for our function in a forward pass of two tokens, so no architecture is
    known by name. The projections stay as they are. Returns the names of the modules.

    Args:
        model: a model of transformers.
        attention: config of an :class:`rebnn_mm.layers.EncoderAttention`, to which ``heads`` and ``head_dim`` are
            added; None leaves the arithmetic as it is.

    Raises:
        ImportError: transformers is older than 5.0, whose encoders do not ask for it.
        ValueError: the model's attention does not come from transformers' registry, attends causally, or
            ``attention`` is not a config of an :class:`rebnn_mm.layers.EncoderAttention`.
    """
    require_transformers()
    _register()
    kind = type(model).__name__
    model.set_attn_implementation(IMPLEMENTATION)
    sizes = _attention_modules(model) if model.config._attn_implementation == IMPLEMENTATION else {}
    if not sizes and attention is None:
        return []
    if not sizes:
        raise RebnnError(
            f'{kind}: its attention does not come from the AttentionInterface of transformers '
            f'{version("transformers")}, so attention={attention!r} cannot replace it. Use attention=None, a newer '
            'transformers, or an encoder such as BERT, RoBERTa, DistilBERT or ELECTRA.'
        )
    names = {module: name for name, module in model.named_modules()}
    causal = [names[module] for module in sizes if getattr(module, 'is_causal', False)]
    if causal:
        raise RebnnError(f'{kind}: {causal[0]} is a causal attention, of a decoder; only encoders are supported.')
    if attention is not None:
        for module, (heads, head_dim) in sizes.items():
            module.add_module(CHILD, build_attention(attention, heads, head_dim).train(module.training))
    return [names[module] for module in sizes]


def build_attention(attention: Mapping[str, Any], heads: int, head_dim: int) -> EncoderAttention:
    """Build one attention from its config."""
    name = attention.get('type')
    cls = find_class(name, EncoderAttention, f'attention={dict(attention)!r}: its type is not a registered attention.')
    options = {key: value for key, value in attention.items() if key != 'type'}
    check_options(f'attention of type {name}', options, cls)
    return cls(heads=heads, head_dim=head_dim, **options)


def _attention_modules(model: 'PreTrainedModel') -> dict[nn.Module, tuple[int, int]]:
    """Modules that called :func:`attend` in a forward pass, with heads and values per head, in the order of calls."""
    modes = {module: module.training for module in model.modules()}
    ids = torch.ones(1, 2, dtype=torch.long, device=next(model.parameters()).device)
    visited: dict[nn.Module, tuple[int, int]] = {}
    token = _visited.set(visited)
    try:
        with torch.no_grad():
            model.eval()(input_ids=ids, attention_mask=torch.ones_like(ids))
    finally:
        _visited.reset(token)
        for module, training in modes.items():
            module.training = training
    return visited


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(IMPLEMENTATION, attend)
    # Without this one transformers hands us no mask, and padding is attended to.
    AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)
