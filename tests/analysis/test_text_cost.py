"""What a text classifier costs, against the sizes of its parts."""

import pytest

pytest.importorskip('transformers')

from lab.paper_costs.bert_cost import bert_base_cost
from lab.paper_costs.rules import RULES
from rebnn_mm.analysis.config_network import build_network
from rebnn_mm.analysis.network_cost import network_cost
from rebnn_mm.models.language import TextClassifier
from tests.models.language.tiny import BINARY, SIZES, tiny_encoder

TOKENS, WORDS, WIDTH, HIDDEN, LAYERS = 24, 101, SIZES['hidden_size'], SIZES['intermediate_size'], 2
LINEARS = LAYERS * (4 * WIDTH * WIDTH + 2 * WIDTH * HIDDEN)
ATTENTION = LAYERS * 2 * TOKENS * TOKENS * WIDTH


@pytest.fixture(scope='module')
def folder(tmp_path_factory) -> str:
    return tiny_encoder(tmp_path_factory.mktemp('bert'), vocab_size=WORDS)


@pytest.fixture(scope='module')
def binary(folder):
    return network_cost(TextClassifier(folder, pretrained=False, **BINARY), (TOKENS,))


def test_products_are_counted_at_their_bits(binary):
    pooler, classifier = WIDTH * WIDTH, 2 * WIDTH
    assert binary.macs_by_precision() == {'W1A1': TOKENS * LINEARS + ATTENTION + pooler, 'W32A32': classifier}
    ops = 2 * ((TOKENS * LINEARS + ATTENTION + pooler) / 64 + classifier)
    assert RULES['bert-deploy'].ops(binary) == RULES['bert-bits'].ops(binary) == pytest.approx(ops)


def test_sizes_by_both_conventions(binary):
    bits = WORDS * WIDTH + LINEARS + WIDTH * WIDTH
    assert RULES['bert-bits'].size(binary) == pytest.approx(bits / 8 / 2**20)
    scales = biases = LAYERS * (5 * WIDTH + HIDDEN) + WIDTH
    norms, positions, classifier = (1 + 2 * LAYERS) * 2 * WIDTH, (64 + 2) * WIDTH, 2 * WIDTH + 2
    real = WORDS + scales + biases + norms + positions + classifier
    assert RULES['bert-deploy'].size(binary) == pytest.approx((bits / 8 + 4 * real) / 2**20)


def test_real_network_has_the_products_of_the_list(folder):
    real = network_cost(TextClassifier(folder, pretrained=False), (TOKENS,))
    assert real.bops == 0
    assert real.macs == TOKENS * LINEARS + ATTENTION + WIDTH * WIDTH + 2 * WIDTH


def test_attention_says_its_bits(folder):
    softmax = dict(type='SoftmaxAttention', projections='BinarySign', weights='BinarySign')
    cost = network_cost(TextClassifier(folder, pretrained=False, attention=softmax), (TOKENS,))
    attentions = [layer for layer in cost.layers if layer.kind == 'SoftmaxAttention']
    assert [(layer.precision, layer.macs) for layer in attentions] == [('W1A1', ATTENTION // 2)] * 2


def test_bert_base_has_the_published_products():
    """The list of layers and the closed form of the network: 12 layers of 768 and 3072, 128 tokens."""
    products = sum(layer.macs for layer in bert_base_cost().layers if layer.name.startswith('layer'))
    assert products == 12 * (128 * (4 * 768**2 + 2 * 768 * 3072) + 2 * 128**2 * 768)


def test_network_of_a_config_needs_no_weights(folder):
    from mmengine.config import Config

    model = dict(type='rebnn_mm.TextClassifier', encoder=folder, **BINARY)
    step = dict(type='TokenizeText', tokenizer=folder, max_length=16)
    cfg = Config(dict(model=model, test_dataloader=dict(dataset=dict(pipeline=[step]))))
    assert build_network(cfg).encoder.config.vocab_size == WORDS
