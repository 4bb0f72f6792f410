"""Every method of the GLUE table: what it quantizes, that it trains in a Runner, and that the 1-bit rows learn."""

import pytest
import torch

pytest.importorskip('transformers')

from rebnn_mm.datasets import glue_collate
from rebnn_mm.layers import BinaryEmbedding, BinaryLinear, EncoderAttention, calibrate_shifts
from rebnn_mm.methods import TernaryBERTActivation
from rebnn_mm.models.language import TextClassifier, load_pretrained, save_pretrained
from rebnn_mm.quantizers import ActivationQuantizer
from rebnn_mm.registry import MODELS
from tests.configs.glue_task import METHODS, Counting, accuracy, method_config, train
from tests.models.language.tiny import tiny_encoder

BITS = {
    'qbert': (2, 8, 8),
    'q2bert': (2, 8, 8),
    'ternarybert': (2, 2, 2),
    'binarybert_ternary': (2, 2, 1),
    'binarybert': (1, 1, 1),
    'bibert': (1, 1, 1),
    'rebnn': (1, 1, 1),
    'bit_w1a2': (1, 1, 2),
    'bit': (1, 1, 1),
}
"""Weights of linear layers, word embedding, and every input of a product."""

LEARNED = 0.75
"""Share of right answers that no method reaches by answering with one class (0.5) or at random."""


@pytest.fixture(scope='module')
def teacher(tmp_path_factory):
    """The directory of a full-precision classifier that has learned the task."""
    folder = tmp_path_factory.mktemp('teacher')
    options = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    torch.manual_seed(0)  # of the classifier, which the encoder's files do not have
    model, _ = train(TextClassifier(tiny_encoder(folder / 'encoder', **options)), [], folder / 'run', 150, lr=2e-3)
    assert accuracy(model) > 0.9
    save_pretrained(model, str(folder / 'pretrained'))
    return str(folder / 'pretrained')


def build(name, encoder, teacher):
    """The model of a method and its hooks, save those that only write."""
    cfg = method_config(name)
    sources = dict(encoder=encoder, num_labels=2)
    if cfg.model.type == 'rebnn_mm.TeacherStudentTextClassifier':
        sources['teacher'] = teacher
    cfg = method_config(name, **sources)
    torch.manual_seed(0)
    return MODELS.build(cfg.model), [hook for hook in cfg.custom_hooks if 'SavePretrained' not in hook.type]


def learned(name, encoder, teacher, work_dir, steps=100, lr=2e-3):
    model, losses = train(*build(name, encoder, teacher), work_dir / name, steps, lr)
    assert all(torch.tensor(losses).isfinite())
    return model, losses


def test_every_method_file_is_tested():
    assert {path.stem for path in METHODS.glob('*.py')} - {'real'} == set(BITS)


@pytest.mark.parametrize('name', BITS)
def test_bits(name, teacher):
    weights, words, inputs = BITS[name]
    model, _ = build(name, teacher, teacher)
    linears = [module for module in model.modules() if isinstance(module, BinaryLinear)]
    output = linears.pop()
    assert not output.binary and output.layer_name.endswith('classifier')
    assert len(linears) == (26 if name == 'binarybert' else 13)
    assert {(layer.weight_bits, layer.activation_bits) for layer in linears} == {(weights, inputs)}
    embeddings = [module for module in model.modules() if isinstance(module, BinaryEmbedding)]
    assert {layer.weight_bits for layer in embeddings} == {words}
    assert len(embeddings) == (2 if name == 'binarybert' else 1)
    attentions = [module for module in model.modules() if isinstance(module, EncoderAttention)]
    assert len(attentions) == 2
    if not name.startswith(('bibert', 'rebnn')):
        for attention in attentions:
            assert [part.bits for part in attention.children() if isinstance(part, ActivationQuantizer)] == [
                inputs
            ] * 4


@pytest.mark.parametrize('name', BITS)
def test_padding_and_the_rest_of_a_batch_do_not_change_a_prediction(name, teacher):
    model, _ = build(name, teacher, teacher)
    for module in model.modules():
        if isinstance(module, TernaryBERTActivation):
            module.over = 'sample'  # the code's own range depends on the whole batch
    batch = glue_collate(Counting(4).items)
    assert calibrate_shifts(model, lambda: model.encoder(**batch['inputs'])) == []
    model.train().encoder(**batch['inputs'])  # a range that is followed in training is known by now
    model.eval().requires_grad_(False)
    alone = [model(glue_collate([item])['inputs']) for item in Counting(4).items]
    torch.testing.assert_close(model(batch['inputs']), torch.cat(alone), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize('name', BITS)
def test_bfloat16_trains(name, teacher):
    model, _ = build(name, teacher, teacher)
    batch = glue_collate(Counting(4).items)
    with torch.autocast('cpu', torch.bfloat16):
        loss = sum(model(batch['inputs'], batch['data_samples'], mode='loss').values())
    loss.backward()
    grads = {key: value.grad for key, value in model.named_parameters() if value.grad is not None}
    assert loss.isfinite() and all(grad.isfinite().all() and grad.dtype == torch.float32 for grad in grads.values())
    assert {key for key, _ in model.named_parameters() if 'dense.' in key} <= grads.keys()


@pytest.mark.parametrize('name', ['qbert', 'q2bert', 'ternarybert'])
def test_rows_of_more_bits_train(name, teacher, tmp_path):
    model, hooks = build(name, teacher, teacher)
    before = {key: value.detach().clone() for key, value in model.named_parameters()}
    model, losses = train(model, hooks, tmp_path, 5)
    assert all(torch.tensor(losses).isfinite())
    idle = [key for key, value in model.named_parameters() if torch.equal(value, before[key])]
    assert [key for key in idle if 'weight' in key and 'token_type' not in key] == []
    save_pretrained(model.eval(), str(tmp_path / 'pretrained'))
    batch = dict(input_ids=torch.tensor([[2, 15, 50, 3]]), attention_mask=torch.ones(1, 4, dtype=torch.long))
    assert torch.equal(load_pretrained(str(tmp_path / 'pretrained'))(batch), model(batch))


@pytest.mark.slow
@pytest.mark.parametrize('name', ['bibert', 'rebnn'])
def test_one_bit_row_learns(name, teacher, tmp_path):
    model, losses = learned(name, teacher, teacher, tmp_path)
    assert sum(losses[-10:]) < 0.75 * sum(losses[:10])
    assert accuracy(model) > LEARNED


@pytest.mark.slow
def test_binarybert_goes_on_where_its_ternary_stage_ends(teacher, tmp_path):
    ternary, _ = learned('binarybert_ternary', teacher, teacher, tmp_path)
    save_pretrained(ternary, str(tmp_path / 'ternary'))
    split, _ = build('binarybert', str(tmp_path / 'ternary'), teacher)
    batch = dict(input_ids=torch.randint(10, 70, (8, 9)), attention_mask=torch.ones(8, 9, dtype=torch.long))
    with torch.no_grad():
        torch.testing.assert_close(split.eval()(batch), ternary.eval()(batch), atol=1e-3, rtol=1e-3)
    model, _ = learned('binarybert', str(tmp_path / 'ternary'), teacher, tmp_path, steps=30, lr=2e-4)
    assert accuracy(model) > LEARNED
    assert {len(layer.weight_quantizer(layer.weight).unique()) for layer in binary_linears(model)} == {2}


@pytest.mark.slow
def test_bit_learns_from_its_two_bit_form(teacher, tmp_path):
    two_bits, _ = learned('bit_w1a2', teacher, teacher, tmp_path)
    first = str(tmp_path / 'two_bits')
    save_pretrained(two_bits, first)
    model, _ = learned('bit', first, first, tmp_path, steps=60)
    assert accuracy(model) > LEARNED
    assert {layer.activation_bits for layer in binary_linears(model.teacher)} == {2}


def binary_linears(model):
    return [module for module in model.modules() if isinstance(module, BinaryLinear) and module.binary]


def test_split_model_survives_saving(teacher, tmp_path):
    model, _ = build('binarybert', teacher, teacher)
    save_pretrained(model.eval(), str(tmp_path))
    batch = dict(input_ids=torch.tensor([[2, 15, 50, 3]]), attention_mask=torch.ones(1, 4, dtype=torch.long))
    assert torch.equal(load_pretrained(str(tmp_path))(batch), model(batch))
    again, _ = build('binarybert', str(tmp_path), teacher)
    assert torch.equal(again.eval()(batch), model(batch))
