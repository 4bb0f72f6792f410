"""The list of BERT's layers compared with torch's own modules of the same sizes."""

import pytest
import torch
from torch import nn

from lab.paper_costs.bert_cost import Bert111Rule, BertRealRule, bert_base_cost
from rebnn_mm.analysis.layer_counter import count_layers


class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions, self.types = (nn.Embedding(n, 768) for n in (30522, 512, 2))
        self.norm = nn.LayerNorm(768)
        layer = nn.TransformerEncoderLayer(768, 12, 3072, activation='gelu', batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
        self.pooler = nn.Linear(768, 768)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1])[None]
        x = self.words(tokens) + self.positions(places) + self.types(torch.zeros_like(tokens))
        return self.pooler(self.encoder(self.norm(x)))


@pytest.mark.parametrize('tokens', [128, 40])
def test_the_list_is_bert_base(tokens):
    with torch.device('meta'):  # shapes without memory
        model = Bert().eval()
        layers = count_layers(model, lambda: model(torch.zeros(1, tokens, dtype=torch.long)))
    listed = bert_base_cost(tokens)
    values = sum(layer.weights + layer.bias + layer.vectors for layer in listed.layers)
    assert values == sum(layer.parameters for layer in layers) == 109_482_240
    assert listed.macs == sum(layer.macs for layer in layers)


def test_size_of_the_real_valued_network():
    assert BertRealRule().size(bert_base_cost()) == pytest.approx(417.6, abs=0.05)


def test_the_1_bit_size_holds_the_words_twice_and_no_norm():
    assert Bert111Rule().size(bert_base_cost()) == pytest.approx((84_934_656 + 2 * 23_440_896) / 8 / 1e6, rel=1e-12)


def test_attention_multiplies_two_activations():
    rule = Bert111Rule()
    layers = {layer.name: layer for layer in bert_base_cost(128).layers}
    assert rule.layer_ops(layers['layer0.query_key']) == 2 * 128 * 128 * 768 / 64
