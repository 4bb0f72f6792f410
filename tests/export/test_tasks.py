import onnx
import pytest
import torch
from mmcv.cnn.bricks import Conv2dAdaptivePadding
from mmengine.registry import DefaultScope
from torch import nn

mmpretrain = pytest.importorskip('mmpretrain')
pytest.importorskip('transformers')

from rebnn_mm.export import pack  # noqa: E402
from rebnn_mm.export.exporter import export  # noqa: E402
from rebnn_mm.export.options import Options  # noqa: E402
from rebnn_mm.export.tasks import (  # noqa: E402
    ClassifierScores,
    classifier_graph,
    explain_unsupported_classifier,
    random_texts,
    task_of,
    torch_outputs,
)
from rebnn_mm.models.classification import TeacherStudentClassifier  # noqa: E402
from tests.export.conftest import tiny_classifier, tiny_parts  # noqa: E402
from tests.export.texts import classifier as text_classifier  # noqa: E402


def test_scores_are_what_the_classifier_predicts(classifier, random_images):
    with torch.no_grad():
        predicted = torch.stack([sample.pred_score for sample in classifier.predict(random_images)])
        assert torch.equal(ClassifierScores(classifier)(random_images), predicted)


def test_several_labels_have_independent_scores(random_images):
    model = tiny_classifier(head=dict(type='MultiLabelLinearClsHead', num_classes=5, in_channels=8))
    with torch.no_grad():
        predicted = torch.stack([sample.pred_score for sample in model.predict(random_images)])
        assert torch.equal(ClassifierScores(model)(random_images), predicted)
    assert task_of(model).name == 'classification'


def test_a_student_is_exported_without_its_teacher(classifier, random_images):
    parts = tiny_parts()
    teacher = dict(type='ImageClassifier', **parts, init_cfg=dict(type='Kaiming', layer='Conv2d'))
    with DefaultScope.overwrite_default_scope('mmpretrain'):
        student = TeacherStudentClassifier(**parts, teacher=teacher)
    student.load_state_dict(classifier.state_dict())
    scores = ClassifierScores(student.eval())
    with torch.no_grad():
        assert torch.equal(scores(random_images), ClassifierScores(classifier)(random_images))
    assert len(list(scores.parameters())) == len(list(classifier.parameters()))
    assert task_of(student).name == 'classification'


def test_a_head_that_predicts_in_its_own_way_is_not_taken_for_a_classifier():
    class Own(mmpretrain.models.LinearClsHead):
        def predict(self, feats, data_samples=None):
            return []

    with DefaultScope.overwrite_default_scope('mmpretrain'):
        head = Own(num_classes=5, in_channels=8)
    model = tiny_classifier(head=head)
    assert explain_unsupported_classifier(model) == 'its head Own predicts in a way of its own'
    assert task_of(model).name == 'raw' and 'its head Own' in task_of(model).because


def test_another_module_gives_what_it_gives():
    task = task_of(nn.Conv2d(3, 4, 1))
    assert task.name == 'raw' and 'not an image classifier' in task.because and 'not a detector' in task.because


def test_half_precision_of_text_classifiers_is_compared(tmp_path):
    result = export(text_classifier(tmp_path / 'bert'), Options(half=True))
    assert result.half.images == 6 and result.half.difference < 1e-2


@pytest.mark.parametrize('kind', ['distilbert', 'roberta'])
def test_other_encoders_of_texts(tmp_path, kind):
    result = export(text_classifier(tmp_path / kind, kind))
    assert result.verification.images == 6 and result.verification.library in (None, 0)


def test_windows_of_attention_are_refused(tmp_path):
    with pytest.raises(ValueError, match='sliding_attention'):
        export(text_classifier(tmp_path / 'modernbert', 'modernbert', layers=2))


def test_real_parts_may_stay_real(tmp_path):
    model = text_classifier(tmp_path / 'real', binarize=None, attention=None)
    graph = onnx.load_from_string(export(model).data)
    assert 'rebnn' not in {node.domain for node in graph.graph.node}


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (dict(attention=dict(type='SoftmaxAttention', projections='BinarySign')), 'binary_attention'),
        (dict(binarize=dict(linear=dict(type='DoReFaLinear'))), 'layer.0.attention.self.query'),
    ],
)
def test_other_methods_are_refused_by_name(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        pack(text_classifier(tmp_path / 'other', **options))


def test_signs_of_gelu_as_in_pytorch_where_it_saturates(tmp_path):
    model = text_classifier(tmp_path / 'wide')
    for name, value in model.named_parameters():
        if 'intermediate' in name and name.endswith('bias'):
            value.data.normal_(0, 8)
    found = export(model).verification
    assert found.flipped.flipped <= 2 and found.difference < 1e-2
    (text, *_) = random_texts(model)
    assert torch_outputs(model, task_of(model), text)[0].shape == (3, 3)


@pytest.mark.slow
@pytest.mark.parametrize(('halvings', 'free'), [(1, True), (2, False)])
def test_paddings_that_depend_on_one_another_are_exported_for_one_size(halvings, free):
    model = tiny_classifier()
    layers = [Conv2dAdaptivePadding(3, 3, 3, stride=2) for _ in range(halvings)]
    model.backbone = nn.Sequential(*layers, model.backbone)
    shape = classifier_graph(model.eval(), torch.zeros(2, 3, 16, 12)).graph.input[0].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [0, 3, *((0, 0) if free else (16, 12))]
