import pytest
import torch
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

from rebnn_mm.layers import EncoderAttention
from rebnn_mm.models.language import attention as attention_module
from rebnn_mm.models.language import install_attention, record_attention
from rebnn_mm.models.language.attention import IMPLEMENTATION
from tests.models.language.tiny import SIZES_OF, tiny_batch, tiny_encoder

BINARY_ATTENTION = dict(type='BinaryAttention')


@pytest.fixture(scope='module', params=list(SIZES_OF))
def folder(request, tmp_path_factory):
    return tiny_encoder(tmp_path_factory.mktemp(request.param), request.param)


def load(folder):
    return AutoModelForSequenceClassification.from_pretrained(folder).eval()


@pytest.fixture
def bert(tmp_path):
    return load(tiny_encoder(tmp_path))


def changed_padding(inputs):
    ids = torch.where(inputs['attention_mask'] == 0, (inputs['input_ids'] + 17) % 100, inputs['input_ids'])
    assert not torch.equal(ids, inputs['input_ids'])
    return {**inputs, 'input_ids': ids}


def test_every_architecture_attends_with_our_module(folder):
    model = load(folder)
    inputs, _ = tiny_batch(folder)
    with torch.no_grad():
        plain = model(**inputs).logits
        names = install_attention(model, BINARY_ATTENTION)
        with record_attention() as records:
            binary = model(**inputs).logits
    assert len(names) == 2 and model.config._attn_implementation == IMPLEMENTATION
    assert not torch.equal(plain, binary)
    for record in records:
        assert record.query.shape == record.key.shape == record.value.shape == (2, 2, inputs['input_ids'].shape[1], 16)
        # Sixteen products of signs, over the root of sixteen: multiples of one half.
        assert torch.equal(record.scores * 2, (record.scores * 2).round())
        assert record.mask.dtype == torch.bool and not record.mask.all()


def test_padding_changes_no_logit(folder):
    """The guard of the mask's own registration: without it transformers hands over no mask at all."""
    model = load(folder)
    inputs, _ = tiny_batch(folder)
    install_attention(model, BINARY_ATTENTION)
    with torch.no_grad():
        assert torch.equal(model(**inputs).logits, model(**changed_padding(inputs)).logits)


def test_without_the_mask_registered_padding_would_change_logits(bert, tmp_path, monkeypatch):
    from transformers import AttentionMaskInterface

    inputs, _ = tiny_batch(tmp_path)
    install_attention(bert, BINARY_ATTENTION)
    monkeypatch.delitem(AttentionMaskInterface._global_mapping, IMPLEMENTATION)
    with torch.no_grad():
        assert not torch.equal(bert(**inputs).logits, bert(**changed_padding(inputs)).logits)


def test_padded_and_unpadded_rows_agree(bert, tmp_path):
    install_attention(bert, BINARY_ATTENTION)
    inputs, _ = tiny_batch(tmp_path)
    kept = int(inputs['attention_mask'][0].sum())
    alone = {key: value[:1, :kept] for key, value in inputs.items()}
    with torch.no_grad():
        # Sums over hidden units in another order, because a batch of another shape is multiplied differently.
        torch.testing.assert_close(bert(**alone).logits, bert(**inputs).logits[:1], atol=1e-5, rtol=0)


def test_listening_leaves_a_real_model_bit_for_bit(folder):
    model = load(folder)
    inputs, _ = tiny_batch(folder)
    with torch.no_grad():
        before = model(**inputs).logits
        assert len(install_attention(model, None)) == 2
        assert torch.equal(model(**inputs).logits, before)
        with record_attention() as records:
            assert torch.equal(model(**inputs).logits, before)
    assert len(records) == 2
    record = records[0]
    expected = record.query @ record.key.transpose(-1, -2) * record.scaling
    torch.testing.assert_close(record.scores, expected)


def test_records_end_with_the_context(bert, tmp_path):
    install_attention(bert, None)
    inputs, _ = tiny_batch(tmp_path)
    with record_attention() as records:
        bert(**inputs)
        with record_attention() as inner:
            bert(**inputs)
    bert(**inputs)
    assert len(records) == len(inner) == 2


def test_recorded_tensors_carry_gradients(bert, tmp_path):
    install_attention(bert, BINARY_ATTENTION)
    inputs, _ = tiny_batch(tmp_path)
    with record_attention() as records:
        bert(**inputs)
    records[1].query.square().sum().backward()
    assert bert.bert.encoder.layer[1].attention.self.query.weight.grad.abs().sum() > 0
    assert bert.bert.encoder.layer[1].attention.self.key.weight.grad is None


def test_hidden_states_and_attentions_still_come_out(bert, tmp_path):
    install_attention(bert, BINARY_ATTENTION)
    inputs, _ = tiny_batch(tmp_path)
    out = bert(**inputs, output_hidden_states=True, output_attentions=True)
    assert len(out.hidden_states) == 3 and len(out.attentions) == 2
    assert set(out.attentions[0].unique().tolist()) == {0.0, 1.0}


def test_modes_and_random_numbers_are_left_alone(bert):
    bert.train()
    bert.bert.pooler.eval()
    random = torch.get_rng_state()
    install_attention(bert, BINARY_ATTENTION)
    assert torch.equal(torch.get_rng_state(), random)
    assert bert.training and not bert.bert.pooler.training
    assert bert.bert.encoder.layer[0].attention.self.binary_attention.training


def test_a_float_mask_is_refused(bert):
    install_attention(bert, BINARY_ATTENTION)
    ids = torch.tensor([[2, 10, 11, 3]])
    with pytest.raises(TypeError, match="'rebnn' attention: the mask is of torch.float32, but must be bool"):
        bert(input_ids=ids, attention_mask=torch.zeros(1, 1, 4, 4))


@pytest.mark.parametrize(
    ('attention', 'message'),
    [
        (
            dict(type='BiAttention'),
            "'BiAttention'.*: its type is not a registered attention. Did you mean .*Registered: BinaryAttention",
        ),
        (dict(type='BinaryAttention', ties=False), "BinaryAttention: no option 'ties'. Did you mean 'tie'?"),
        (dict(type='BinaryLinear'), 'not a registered attention'),
    ],
)
def test_wrong_config_is_named(bert, attention, message):
    with pytest.raises(ValueError, match=message):
        install_attention(bert, attention)


def test_decoders_are_refused():
    from transformers import GPT2Config, GPT2ForSequenceClassification

    config = GPT2Config(vocab_size=100, n_embd=32, n_layer=1, n_head=2, n_positions=16, pad_token_id=0)
    with pytest.raises(ValueError, match='GPT2ForSequenceClassification: .* is a causal attention, of a decoder'):
        install_attention(GPT2ForSequenceClassification(config), BINARY_ATTENTION)


def test_models_whose_attention_is_not_in_the_registry():
    from transformers import FNetConfig, FNetForSequenceClassification

    config = FNetConfig(vocab_size=100, hidden_size=32, num_hidden_layers=1, intermediate_size=64)
    model = FNetForSequenceClassification(config)
    assert install_attention(model, None) == []
    with pytest.raises(ValueError, match='FNetForSequenceClassification: its attention does not come from'):
        install_attention(model, BINARY_ATTENTION)


def test_old_transformers_are_refused(bert, monkeypatch):
    monkeypatch.setattr(attention_module, 'version', lambda name: '4.57.6')
    with pytest.raises(ImportError, match=r'transformers 4.57.6 is too old.*pip install .transformers>=5.0'):
        install_attention(bert, BINARY_ATTENTION)


def test_no_transformers_are_refused(monkeypatch):
    def missing(name):
        raise attention_module.PackageNotFoundError(name)

    monkeypatch.setattr(attention_module, 'version', missing)
    with pytest.raises(ImportError, match=r'need transformers: pip install .transformers>=5.0'):
        attention_module.require_transformers()


def test_attentions_have_their_sizes_and_no_state_but_their_own():
    class Scaled(EncoderAttention):
        def __init__(self, heads, head_dim):
            super().__init__(heads, head_dim)
            self.scale = torch.nn.Parameter(torch.ones(heads, 1, head_dim))

    from mmengine.registry import MODELS

    MODELS.register_module('ScaledForTest', module=Scaled, force=True)
    try:
        config = BertConfig(
            vocab_size=50, hidden_size=24, num_hidden_layers=1, num_attention_heads=3, intermediate_size=8
        )
        model = BertForSequenceClassification(config)
        before = set(model.state_dict())
        install_attention(model, dict(type='ScaledForTest'))
        added = set(model.state_dict()) - before
        assert added == {'bert.encoder.layer.0.attention.self.binary_attention.scale'}
        assert model.state_dict()[added.pop()].shape == (3, 1, 8)
    finally:
        MODELS.module_dict.pop('ScaledForTest')
