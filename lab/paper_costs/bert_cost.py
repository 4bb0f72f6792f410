"""BERT-base as a list of layers, and the accounting rules of the paper's BERT table.

The figures follow from the published sizes of the network: 12 layers, width 768, feed-forward width 3072, 30,522
words, 512 positions, 128 tokens (Devlin et al. 2019). They need no transformers; a text classifier of this package is
counted by :func:`rebnn_mm.analysis.network_cost.network_cost`, and has the same parameters and products.
"""

from typing import ClassVar

from rebnn_mm.analysis.layer_cost import LayerCost, NetworkCost

from .rule import MB, MIB, Rule

LAYERS, WIDTH, HIDDEN, WORDS, POSITIONS, TOKENS = 12, 768, 3072, 30522, 512, 128
TABLES = ('embeddings.word', 'embeddings.position', 'embeddings.type')


def bert_base_cost(tokens: int = TOKENS) -> NetworkCost:
    """The layers of full-precision BERT-base without a task's own head, for one sequence.

    The pooler is applied to every token, which the published operation count needs; BERT applies it to the first one.

    Args:
        tokens: length of the sequence.

    Example:
        >>> cost = bert_base_cost()
        >>> sum(layer.weights + layer.bias + layer.vectors for layer in cost.layers)
        109482240
    """
    layers = [
        _values('embeddings.word', WORDS * WIDTH),
        _values('embeddings.position', POSITIONS * WIDTH),
        _values('embeddings.type', 2 * WIDTH),
        _values('embeddings.norm', 2 * WIDTH),
    ]
    for i in range(LAYERS):
        layers += [_linear(f'layer{i}.{name}', WIDTH, WIDTH, tokens) for name in ('query', 'key', 'value', 'output')]
        layers += [_attention(f'layer{i}.{name}', tokens) for name in ('query_key', 'attention_value')]
        layers += [_linear(f'layer{i}.hidden', WIDTH, HIDDEN, tokens), _linear(f'layer{i}.out', HIDDEN, WIDTH, tokens)]
        layers += [_values(f'layer{i}.norm{j}', 2 * WIDTH) for j in (1, 2)]
    layers.append(_linear('pooler', WIDTH, WIDTH, tokens))
    return NetworkCost(tuple(layers))


def _linear(name: str, inputs: int, outputs: int, tokens: int) -> LayerCost:
    weights = inputs * outputs
    return LayerCost(name, 'Linear', weights=weights, bias=outputs, macs=weights * tokens, calls=1)


def _attention(name: str, tokens: int) -> LayerCost:
    return LayerCost(name, 'Attention', macs=tokens * tokens * WIDTH, calls=1)


def _values(name: str, values: int) -> LayerCost:
    return LayerCost(name, 'Embedding' if name.startswith('embeddings.') else 'LayerNorm', vectors=values, calls=1)


class BertRealRule(Rule):
    """Full-precision BERT: all parameters in MiB, two operations per multiply-accumulate."""

    name = 'paper-bert-real'
    about = 'Table 4, full-precision: all parameters, in MiB; 2 operations per multiply-accumulate'
    bytes_per_unit = MIB
    weight_bits: ClassVar[int] = 32
    activation_bits: ClassVar[int] = 32

    def layer_ops(self, layer: LayerCost) -> float:
        """Two per multiply-accumulate, weighed by bits; attention multiplies two activations."""
        weight_bits = self.activation_bits if layer.kind == 'Attention' else self.weight_bits
        return 2 * layer.macs * min(weight_bits * self.activation_bits / 64, 1.0)


class Bert288Rule(BertRealRule):
    """2-8-8: encoder at 2 bits, all embeddings at 8, nothing else."""

    name = 'paper-bert-2-8-8'
    about = 'Table 4, 2-8-8: linear layers of the encoder at 2 bits, embeddings at 8, nothing else, in MiB; 2 w*a/64'
    weight_bits = 2
    activation_bits = 8

    def layer_bytes(self, layer: LayerCost) -> float:
        """Weights of the encoder and tables."""
        if layer.name.startswith('layer'):
            return layer.weights * 2 / 8
        return float(layer.vectors) if layer.name in TABLES else 0.0


class Bert222Rule(BertRealRule):
    """2-2-2: encoder, pooler and word table at 2 bits, the rest real."""

    name = 'paper-bert-2-2-2'
    about = 'Table 4, 2-2-2: linear layers, pooler and words at 2 bits, all else at 32, in MiB; 2 w*a/64'
    weight_bits = 2
    activation_bits = 2

    def layer_bytes(self, layer: LayerCost) -> float:
        """Everything."""
        if layer.name == 'embeddings.word':
            return layer.vectors * 2 / 8
        return layer.weights * 2 / 8 + 4 * (layer.bias + layer.vectors)


class Bert111Rule(BertRealRule):
    """1-1-1: encoder at 1 bit and the word table twice at 1 bit, nothing else; the size is BinaryBERT's."""

    name = 'paper-bert-1-1-1'
    about = (
        "Table 4, 1-1-1: linear layers of the encoder at 1 bit, words twice at 1 bit (BinaryBERT's), in MB; 2 w*a/64"
    )
    bytes_per_unit = MB
    weight_bits = 1
    activation_bits = 1

    def layer_bytes(self, layer: LayerCost) -> float:
        """Weights of the encoder, and the word table split in two."""
        if layer.name == 'embeddings.word':
            return 2 * layer.vectors / 8
        return layer.weights / 8 if layer.name.startswith('layer') else 0.0
