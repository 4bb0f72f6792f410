from copy import deepcopy

import pytest
import torch
from mmengine.structures import BaseDataElement

pytest.importorskip('transformers')

from rebnn_mm.models.language import TeacherStudentTextClassifier, TextClassifier, save_pretrained
from tests.models.language.tiny import tiny_encoder

LOSSES = [
    dict(type='PredictionLoss'),
    dict(type='DirectionMatchingLoss'),
    dict(type='HiddenStateLoss'),
]
BINARY = dict(
    binarize=dict(linear=dict(type='BinaryLinear', weight='BiBERTWeight', activation=dict(type='BinarySign'))),
    attention=dict(type='BinaryAttention'),
)


@pytest.fixture(scope='module')
def teacher(tmp_path_factory):
    """The directory of a classifier with a head of its own."""
    source = tiny_encoder(tmp_path_factory.mktemp('encoder'))
    torch.manual_seed(0)
    folder = str(tmp_path_factory.mktemp('teacher'))
    save_plain(TextClassifier(source, num_labels=3), folder)
    return folder


def save_plain(model, folder):
    """As any fine-tuned model of transformers is saved."""
    from transformers import AutoTokenizer

    model.encoder.save_pretrained(folder)
    AutoTokenizer.from_pretrained(model.source).save_pretrained(folder)


@pytest.fixture
def build(teacher):
    def build(**options):
        torch.manual_seed(1)
        arguments = dict(num_labels=3, teacher=teacher, losses=LOSSES, **BINARY)
        return TeacherStudentTextClassifier(teacher, **{**arguments, **options})

    return build


def batch(length=7):
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 80, (4, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[1, 5:] = 0
    samples = [BaseDataElement(gt_label=torch.tensor(i % 3)) for i in range(4)]
    return dict(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids)), samples


def test_losses_compare_both_encoders(build, teacher):
    model = build(label_weight=0.5).eval()
    inputs, samples = batch()
    with torch.no_grad():  # as below, so that both compute with codes
        terms = model(inputs, samples, mode='loss')
    assert list(terms) == ['loss_pred', 'loss_q', 'loss_k', 'loss_v', 'loss_hidden', 'loss_label']
    plain = TextClassifier(teacher, num_labels=3).eval()
    with torch.no_grad():
        theirs, ours = plain.encode(inputs), model.encode(inputs)
    for loss in model.losses:
        for name, value in loss(ours, theirs).items():
            torch.testing.assert_close(terms[name], value)
    labels = torch.stack([sample.gt_label for sample in samples])
    expected = 0.5 * torch.nn.functional.cross_entropy(ours.logits, labels)
    torch.testing.assert_close(terms['loss_label'].detach(), expected)


def test_padding_of_a_batch_does_not_change_the_losses(build):
    model = build(label_weight=0.5).eval()
    inputs, samples = batch()
    longer = {key: torch.nn.functional.pad(value, (0, 6)) for key, value in inputs.items()}
    short, long = (model(x, samples, mode='loss') for x in (inputs, longer))
    for name in short:
        torch.testing.assert_close(long[name], short[name], atol=1e-5, rtol=1e-5)


def test_teacher_is_no_part_of_the_model(build, teacher):
    model = build()
    model.init_weights()
    student = TextClassifier(teacher, num_labels=3, **BINARY)
    assert model.state_dict().keys() == student.state_dict().keys()
    assert len(list(model.parameters())) == len(list(student.parameters()))
    model.train()
    assert not model.teacher.training and not any(p.requires_grad for p in model.teacher.parameters())
    before = deepcopy(model.teacher.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs, samples = batch()
    model.teacher.train()  # even if somebody switches its mode
    sum(model(inputs, samples, mode='loss').values()).backward()
    optimizer.step()
    assert not model.teacher.training
    assert all(torch.equal(before[key], value) for key, value in model.teacher.state_dict().items())
    assert all(p.grad is None for p in model.teacher.parameters())


def test_every_student_parameter_learns(build):
    model = build(label_weight=0.5)
    inputs, samples = batch()
    sum(model(inputs, samples, mode='loss').values()).backward()
    idle = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert idle == []


def test_teacher_follows_precision_and_device(build):
    model = build()
    model.init_weights()
    model.double()
    assert {p.dtype for p in model.teacher.parameters()} == {torch.float64}
    model.to('meta')
    assert {p.device.type for p in model.teacher.parameters()} == {'meta'}
    late = build().double()
    assert {p.dtype for p in late.prepare_teacher().parameters()} == {torch.float64}


def test_a_copy_shares_the_teacher(build):
    model = build()
    model.init_weights()
    assert deepcopy(model).teacher is model.teacher


def test_testing_needs_no_teacher(build):
    model = build(teacher='not/there/at_all').eval()
    inputs, samples = batch()
    assert model(inputs, samples, mode='predict')[0].pred_score.shape == (3,)
    with pytest.raises(ValueError, match="'not/there/at_all': there is no such directory"):
        model.init_weights()


def test_a_binary_teacher_stays_binary(build, tmp_path):
    first = build().eval().requires_grad_(False)
    save_pretrained(first, str(tmp_path))
    model = build(teacher=str(tmp_path)).eval()
    inputs, _ = batch()
    assert torch.equal(model.teacher_output(inputs).logits, first(inputs))


def test_regression_leaves_labels_unused(teacher, tmp_path):
    save_plain(TextClassifier(tiny_encoder(tmp_path / 'encoder'), num_labels=1), tmp_path)
    model = TeacherStudentTextClassifier(
        str(tmp_path), num_labels=1, teacher=str(tmp_path), losses=LOSSES[:1], label_weight=0.5, **BINARY
    )
    inputs, _ = batch()
    samples = [BaseDataElement(gt_label=torch.tensor(2.5)) for _ in range(4)]
    assert list(model(inputs, samples, mode='loss')) == ['loss_pred']


def test_terms_of_the_same_name_are_added(build):
    inputs, samples = batch()
    both = build(losses=[dict(type='HiddenStateLoss'), dict(type='HiddenStateLoss', weight=2.0)]).eval()
    single = build(losses=[dict(type='HiddenStateLoss')]).eval()
    one, three = (model(inputs, samples, mode='loss')['loss_hidden'] for model in (single, both))
    torch.testing.assert_close(three, 3 * one)


def test_teacher_of_another_task_or_vocabulary_is_refused(build, teacher, tmp_path):
    save_plain(TextClassifier(tiny_encoder(tmp_path / 'two', vocab_size=120), num_labels=3), tmp_path / 'words')
    with pytest.raises(ValueError, match='has a vocabulary of 120 tokens, the student one of'):
        build(teacher=str(tmp_path / 'words')).init_weights()
    save_plain(TextClassifier(tiny_encoder(tmp_path / 'three'), num_labels=2), tmp_path / 'labels')
    with pytest.raises(ValueError, match='gives 2 labels, the student 3'):
        build(teacher=str(tmp_path / 'labels')).init_weights()


def test_nothing_to_learn_is_refused(build):
    with pytest.raises(ValueError, match='losses is empty'):
        build(losses=[])


@pytest.mark.parametrize(
    ('losses', 'message'),
    [
        (dict(type='PredictionLoss'), 'losses is to be a list of losses, each a dict'),
        ([dict(type='PKDLoss', modules=['encoder'])], 'PKDLoss in losses is no EncoderComparisonLoss.*PredictionLoss'),
    ],
)
def test_losses_that_do_not_compare_encoders_are_refused(build, losses, message):
    with pytest.raises(ValueError, match=message):
        build(losses=losses)


def test_teacher_of_another_depth_is_refused(build, tmp_path):
    save_plain(TextClassifier(tiny_encoder(tmp_path / 'deep', num_hidden_layers=3), num_labels=3), tmp_path)
    inputs, samples = batch()
    with pytest.raises(ValueError, match='the student has 2 attentions, the teacher 3'):
        build(teacher=str(tmp_path))(inputs, samples, mode='loss')
