import pytest
import torch

pytest.importorskip('transformers')

from rebnn_mm.layers import BinaryLayer
from rebnn_mm.models.language import TextClassifier, load_pretrained, save_pretrained
from rebnn_mm.models.language.pretrained import split_pretrained
from tests.models.language.tiny import BINARY, TERNARY, learn_biases, tiny_batch, tiny_encoder


@pytest.fixture(scope='module')
def encoder(tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp('encoder'))


@pytest.fixture(scope='module')
def ternary(encoder, tmp_path_factory):
    """The directory of a ternary classifier whose quantizers have learned something."""
    model = TextClassifier(encoder, num_labels=3, **TERNARY)
    learn_biases(model)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if 'quantizer' in name:
                parameter.copy_(0.2 + 0.1 * torch.rand(parameter.shape, generator=generator))
    folder = str(tmp_path_factory.mktemp('ternary'))
    save_pretrained(model, folder)
    return folder


def test_split_model_computes_what_the_ternary_one_does(encoder, ternary, tmp_path):
    inputs, _ = tiny_batch(encoder)
    model, before = split_pretrained(ternary), load_pretrained(ternary)
    torch.testing.assert_close(model(inputs), before(inputs), atol=1e-4, rtol=1e-4)
    save_pretrained(model, str(tmp_path))
    assert torch.equal(load_pretrained(str(tmp_path))(inputs), model(inputs))


def test_every_quantized_weight_is_binary_and_the_rest_untouched(ternary):
    model, before = split_pretrained(ternary), load_pretrained(ternary)
    layers = [layer for layer in model.modules() if isinstance(layer, BinaryLayer)]
    assert {layer.weight_bits for layer in layers if layer.binary} == {1}
    real = {layer.layer_name: layer.real_because for layer in layers if not layer.binary}
    assert {name.split('.')[-1] for name in real} == {'classifier', 'dense'}
    latent = before.encoder.get_submodule('bert.encoder.layer.0.attention.self.query')
    pair = model.encoder.get_submodule('bert.encoder.layer.0.attention.self.query')
    torch.testing.assert_close(pair.first.weight + pair.second.weight, latent.weight)
    torch.testing.assert_close(pair.first.bias + pair.second.bias, latent.bias)


def test_what_is_not_ternary_is_refused(encoder, tmp_path):
    with pytest.raises(ValueError, match="no entry 'rebnn', so it is a plain model"):
        split_pretrained(encoder)
    save_pretrained(TextClassifier(encoder, **BINARY), str(tmp_path / 'binary'))
    with pytest.raises(ValueError, match=r"layer '.*' has \w+, not TWNWeight; only ternary weights can be split"):
        split_pretrained(str(tmp_path / 'binary'))
    save_pretrained(TextClassifier(encoder), str(tmp_path / 'real'))
    with pytest.raises(ValueError, match='no layer has ternary weights, so there is nothing to split'):
        split_pretrained(str(tmp_path / 'real'))
