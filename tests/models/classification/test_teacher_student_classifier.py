import subprocess
import sys
from copy import deepcopy

import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmengine.model import ExponentialMovingAverage, MMDistributedDataParallel
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner, save_checkpoint
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.data import Dataset

pytest.importorskip('mmpretrain')

from mmpretrain.models import BaseClassifier, ImageClassifier
from mmpretrain.structures import DataSample

from rebnn_mm.engine import ResilientGradient
from rebnn_mm.models.classification import TeacherStudentClassifier
from rebnn_mm.models.losses import attention_distance, distribution_loss
from tests import two_processes

# Some tests look at a loss only and never step.
pytestmark = pytest.mark.filterwarnings('ignore:.*trained without the resilient gradient')

CLASSES = 5
PREPROCESSING = dict(mean=[120.0, 110.0, 100.0], std=[60.0, 60.0, 60.0], to_rgb=True)


def network(channels=4, classes=CLASSES, conv_cfg=dict(type='ReBNNConv2d')):
    return dict(
        backbone=dict(
            type='BinaryResNet', depth=18, stem='cifar', base_channels=channels, out_indices=(3,), conv_cfg=conv_cfg
        ),
        neck=dict(type='GlobalAveragePooling'),
        head=dict(type='LinearClsHead', num_classes=classes, in_channels=8 * channels),
        data_preprocessor=dict(type='ClsDataPreprocessor', **PREPROCESSING),
    )


def teacher_config(**options):
    return dict(type='ImageClassifier', **network(channels=8, conv_cfg=None, **options))


@pytest.fixture(scope='module')
def teacher_file(tmp_path_factory):
    """The checkpoint of a teacher that was trained, with statistics of its own."""
    torch.manual_seed(7)
    config = teacher_config()
    config.pop('type')
    model = ImageClassifier(**config)
    model.init_weights()
    model(5 * torch.randn(8, 3, 16, 16))
    path = tmp_path_factory.mktemp('teacher') / 'epoch_1.pth'
    save_checkpoint(dict(state_dict=model.state_dict()), str(path))
    return path


@pytest.fixture
def build(teacher_file):
    def build(**options):
        torch.manual_seed(0)
        arguments = dict(teacher=teacher_config(), teacher_checkpoint=str(teacher_file))
        model = TeacherStudentClassifier(**network(), **{**arguments, **options})
        model.init_weights()
        return model

    return build


@pytest.fixture
def images():
    return torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def samples(labels=(0, 1, 2, 3)):
    return [DataSample().set_gt_label(label) for label in labels]


class Whole(BaseClassifier):
    """A classifier in one piece, as mmpretrain wraps those of timm."""

    def __init__(self, **options):
        super().__init__(**options)
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 16 * 16, CLASSES))

    def forward(self, inputs, data_samples=None, mode='tensor'):
        return self.model(inputs)

    extract_feat = loss = predict = None


def test_a_teacher_without_a_head_of_its_own(build, images):
    model = build(teacher=dict(type=Whole, init_cfg=dict(type='Normal', layer='Linear')), teacher_checkpoint=None)
    found = model(images, samples(), mode='loss')['teacher_loss']
    torch.testing.assert_close(found, distribution_loss(model(images), model.teacher(images)))


def test_loss_is_the_distributional_loss_of_both_scores(build, images, teacher_file):
    model = build()
    config = teacher_config()
    config.pop('type')
    teacher = ImageClassifier(**config)
    teacher.load_state_dict(torch.load(teacher_file)['state_dict'])
    losses = model(images, samples(), mode='loss')
    assert losses.keys() == {'teacher_loss'}
    with torch.no_grad():
        expected = distribution_loss(model(images), teacher.eval()(images))
    torch.testing.assert_close(losses['teacher_loss'].detach(), expected, rtol=0, atol=0)


def test_labels_are_added_on_request(build, images):
    plain = ImageClassifier(**network())
    model = build(label_weight=0.5)
    plain.load_state_dict(model.state_dict())
    label_loss = plain(images, samples(), mode='loss')['loss']
    losses = model(images, samples(), mode='loss')
    torch.testing.assert_close(losses['label_loss'], 0.5 * label_loss)
    total, _ = model.parse_losses(losses)
    torch.testing.assert_close(total, losses['teacher_loss'] + 0.5 * label_loss)


@pytest.mark.parametrize('label_weight', [0.0, 0.5])
def test_the_head_is_called_once(build, images, label_weight):
    model = build(label_weight=label_weight)
    calls = []
    model.head.register_forward_hook(lambda *_: calls.append(1))
    model(images, samples(), mode='loss')
    assert len(calls) == 1


MAPS = ['backbone.layer1.0', 'backbone.layer4']
ATTENTION = dict(type='AttentionTransferLoss', modules=MAPS, weight=0.5)


def test_maps_of_both_are_compared_on_request(build, images):
    """Their widths differ; each map is what a forward hook of the module sees."""
    model = build(losses=[ATTENTION, ATTENTION])
    maps = {}
    for network in (model, model.teacher):
        for name in MAPS:
            network.get_submodule(name).register_forward_hook(
                lambda module, _, result, name=name: maps.setdefault(name, []).append(result)
            )
    losses = model(images, samples(), mode='loss')
    assert losses.keys() == {'teacher_loss', *(f'loss_attention_{name}' for name in MAPS)}
    for name, (ours, theirs) in maps.items():
        assert ours.shape[1] * 2 == theirs.shape[1]
        expected = 2 * 0.5 * attention_distance(ours, theirs)  # terms of one name are added
        torch.testing.assert_close(losses[f'loss_attention_{name}'], expected)
    total, _ = model.parse_losses(losses)
    torch.testing.assert_close(total, sum(losses.values()))
    losses['loss_attention_backbone.layer1.0'].backward()
    assert model.backbone.layer1[0].conv1.weight.grad.any() and model.backbone.layer1[1].conv1.weight.grad is None
    assert model.state_dict().keys() == build().state_dict().keys()


@pytest.mark.parametrize(
    ('modules', 'message'),
    [
        (['neck'], r'AttentionTransferLoss: neck gives the shape \(4, 32\), which is not a map \(N, C, H, W\)'),
        (
            ['backbone.layer1.0.conv1.weight_quantizer'],
            'AttentionTransferLoss compares .*, which the teacher does not',
        ),
        (['head.loss_module'], r'training does not call head\.loss_module'),
    ],
)
def test_what_cannot_be_compared_is_refused(build, images, modules, message):
    with pytest.raises(ValueError, match=message):
        build(losses=[dict(ATTENTION, modules=modules)])(images, samples(), mode='loss')


def test_the_model_is_the_student(build):
    model, plain = build(), ImageClassifier(**network())
    assert model.state_dict().keys() == plain.state_dict().keys()
    assert [name for name, _ in model.named_parameters()] == [name for name, _ in plain.named_parameters()]
    assert {id(p) for p in model.teacher.parameters()}.isdisjoint(id(p) for p in model.parameters())
    plain.load_state_dict(model.state_dict())
    model.load_state_dict(plain.state_dict())


def test_predictions_are_the_students_and_need_no_teacher(build, images):
    model, plain = build(), ImageClassifier(**network())
    plain.load_state_dict(model.state_dict())
    without = TeacherStudentClassifier(**network(), teacher=teacher_config(), teacher_checkpoint='not/there.pth')
    without.load_state_dict(model.state_dict())
    expected = plain.eval()(images, mode='predict')
    for ours in (model, without):
        found = ours.eval()(images, mode='predict')
        assert all(torch.equal(a.pred_score, b.pred_score) for a, b in zip(found, expected, strict=True))


def test_teacher_neither_learns_nor_changes(build, images):
    model = build()
    before = deepcopy(model.teacher.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    ResilientGradient(model).attach(optimizer)
    model.train()
    model.requires_grad_(True)
    model.teacher.train()  # even if somebody switches its mode
    student = model.head.fc.weight.detach().clone()
    for _ in range(2):
        model(images, samples(), mode='loss')['teacher_loss'].backward()
        optimizer.step()
    assert not torch.equal(model.head.fc.weight, student)
    after = model.teacher.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert all(p.grad is None and not p.requires_grad for p in model.teacher.parameters())


def test_every_parameter_of_the_student_gets_a_gradient(build, images):
    """What DDP needs, which would otherwise wait for unused parameters."""
    model = build()
    ResilientGradient(model)
    model(images, samples(), mode='loss')['teacher_loss'].backward()
    assert all(p.grad is not None for p in model.parameters())


def test_teacher_follows_precision_and_device(build):
    model = build().double()
    assert {p.dtype for p in model.teacher.parameters()} == {torch.float64}
    model = torch.nn.ModuleDict(dict(inside=model)).to('meta')['inside']
    assert {b.device.type for b in model.teacher.buffers()} == {'meta'}


def test_mixed_precision(build, images):
    model = build()
    expected = model(images, samples(), mode='loss')['teacher_loss']
    with torch.autocast('cpu', torch.bfloat16):
        loss = model(images, samples(), mode='loss')['teacher_loss']
    assert loss.dtype is torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.1, atol=0)


def test_copy_for_ema_shares_the_teacher_and_does_not_move_it(build, images):
    model = build()
    loss = model.eval()(images, samples(), mode='loss')['teacher_loss']
    average = ExponentialMovingAverage(model).module
    assert average.teacher is model.teacher
    average.double()
    assert {p.dtype for p in model.teacher.parameters()} == {torch.float32}
    theirs = average(images.double(), samples(), mode='loss')['teacher_loss']
    torch.testing.assert_close(theirs.float(), loss)
    assert torch.equal(model(images, samples(), mode='loss')['teacher_loss'], loss)


class Data(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        image = torch.randint(0, 256, (3, 16, 16), generator=torch.Generator().manual_seed(index), dtype=torch.uint8)
        return dict(inputs=image, data_samples=DataSample().set_gt_label(index % CLASSES))


def train(model, folder, epochs=2, **options):
    loader = dict(
        batch_size=4,
        num_workers=0,
        dataset=Data(),
        sampler=dict(type='DefaultSampler', shuffle=True),
        collate_fn=pseudo_collate,
    )
    runner = Runner(
        model,
        str(folder),
        train_dataloader=loader,
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        optim_wrapper=dict(
            constructor='BinaryOptimWrapperConstructor', optimizer=dict(type='SGD', lr=0.05, momentum=0.9)
        ),
        custom_hooks=[dict(type='ReBNNHook'), *options.pop('custom_hooks', [])],
        default_scope='mmpretrain',
        experiment_name=f'{folder.parent.name}_{folder.name}',
        randomness=dict(seed=0),
        log_level='ERROR',
        **options,
    )
    runner.train()
    return runner


def raw(teacher_file, student=None, **options):
    """A student that has not been initialised: the runner does it."""
    torch.manual_seed(0)
    return TeacherStudentClassifier(
        **deepcopy(student or network()), teacher=teacher_config(), teacher_checkpoint=str(teacher_file), **options
    )


def real_to_binary():
    student = network(conv_cfg=dict(type='BNNConv2d'))
    student['backbone'].update(block='real_to_binary', stem_act=dict(type='PReLU', num_parameters=4))
    return dict(student=student, losses=[ATTENTION], label_weight=1.0)


@pytest.mark.parametrize('options', [{}, real_to_binary()], ids=['rebnn', 'real_to_binary'])
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(teacher_file, tmp_path, options):
    straight = train(raw(teacher_file, **options), tmp_path / 'straight')
    train(raw(teacher_file, **options), tmp_path / 'stopped', epochs=1)
    resumed = train(
        raw(teacher_file, **options),
        tmp_path / 'resumed',
        load_from=str(tmp_path / 'stopped' / 'epoch_1.pth'),
        resume=True,
    )
    state = resumed.model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in straight.model.state_dict().items())


def test_a_compiled_teacher_teaches_the_same(teacher_file, tmp_path):
    options = dict(losses=[dict(type='AttentionTransferLoss', modules=['backbone'])], label_weight=1.0)
    plain = train(raw(teacher_file, **options), tmp_path / 'plain', epochs=1)
    hook = dict(type='rebnn_mm.CompileHook', part='teacher.backbone', backend='eager')
    torch._dynamo.reset()
    counters.clear()
    compiled = train(raw(teacher_file, **options), tmp_path / 'compiled', epochs=1, custom_hooks=[hook])
    assert counters['frames']['ok'] > 0
    assert compiled.model.backbone._compiled_call_impl is None
    state = compiled.model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in plain.model.state_dict().items())


def test_saved_average_is_that_of_the_student(teacher_file, tmp_path):
    runner = train(raw(teacher_file), tmp_path, epochs=1, custom_hooks=[dict(type='EMAHook')])
    saved = torch.load(tmp_path / 'epoch_1.pth', weights_only=False)
    assert saved['state_dict'].keys() == runner.model.state_dict().keys()
    assert not [key for key in saved['ema_state_dict'] if 'teacher' in key]


def _ddp_worker(rank, teacher_file, folder):
    model = raw(teacher_file)
    wrapped = MMDistributedDataParallel(model)
    model.init_weights()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    ResilientGradient(wrapped).attach(optimizer)
    wrapper = OptimWrapper(optimizer)
    for _ in range(3):
        batch = pseudo_collate([Data()[index] for index in range(4 * rank, 4 * rank + 4)])
        wrapped.train_step(batch, wrapper)
    torch.save(dict(parameters=dict(model.named_parameters()), teacher=model.teacher.state_dict()), f'{folder}/{rank}')


def test_two_processes_keep_one_student(teacher_file, tmp_path):
    """DDP finds every parameter used (it would raise in the second step) and has the same student everywhere."""
    two_processes.run(_ddp_worker, str(teacher_file), str(tmp_path))
    first, second = (torch.load(tmp_path / str(rank)) for rank in (0, 1))
    start = dict(raw(teacher_file).named_parameters())
    assert not torch.equal(first['parameters']['head.fc.weight'], start['head.fc.weight'])
    assert all(torch.equal(value, second['parameters'][name]) for name, value in first['parameters'].items())
    saved = torch.load(teacher_file)['state_dict']
    assert all(torch.equal(value, saved[name]) for name, value in second['teacher'].items())


@pytest.mark.parametrize(
    ('text', 'message'), [('model = dict(type=', 'cannot be read: SyntaxError'), ('epochs = 3\n', 'has no model')]
)
def test_a_config_that_is_none_of_a_teacher_is_refused(tmp_path, text, message):
    config = tmp_path / 'teacher.py'
    config.write_text(text)
    with pytest.raises(ValueError, match=f'teacher.py.*{message}'):
        TeacherStudentClassifier(**network(), teacher=str(config), teacher_checkpoint='teacher.pth')


def test_teacher_from_a_config_file_and_from_a_library(teacher_file, tmp_path):
    config = tmp_path / 'teacher.py'
    config.write_text(f'model = {teacher_config()!r}\n')
    model = TeacherStudentClassifier(**network(), teacher=str(config), teacher_checkpoint=str(teacher_file))
    model.prepare_teacher()
    saved = torch.load(teacher_file)['state_dict']
    assert torch.equal(model.teacher.head.fc.weight, saved['head.fc.weight'])

    student = network(classes=1000)
    student['data_preprocessor'] = dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], to_rgb=True)
    model = TeacherStudentClassifier(
        **student, teacher='mmpretrain::resnet/resnet34_8xb32_in1k.py', teacher_checkpoint='torchvision://resnet34'
    )
    assert sum(p.numel() for p in model.teacher.parameters()) == 21_797_672


def test_weights_of_torchvision_fill_a_teacher_of_mmpretrain(tmp_path, images):
    import torchvision

    torch.manual_seed(0)
    theirs = torchvision.models.resnet18(num_classes=CLASSES).eval()
    torch.save(theirs.state_dict(), tmp_path / 'resnet18.pth')
    model = TeacherStudentClassifier(
        **network(),
        teacher=dict(
            type='ImageClassifier',
            backbone=dict(type='ResNet', depth=18, out_indices=(3,)),
            neck=dict(type='GlobalAveragePooling'),
            head=dict(type='LinearClsHead', num_classes=CLASSES, in_channels=512),
        ),
        teacher_checkpoint=str(tmp_path / 'resnet18.pth'),
    )
    model.prepare_teacher()
    with torch.no_grad():
        torch.testing.assert_close(model.teacher_scores(images), theirs(images))


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(teacher_checkpoint=None), 'the teacher has no weights.*Give teacher_checkpoint'),
        (dict(teacher=teacher_config(classes=7)), 'the student has 5 classes, the teacher 7'),
        (dict(teacher_checkpoint='not/there.pth'), 'no checkpoint at not/there.pth'),
        (dict(losses=None), 'losses is to be a list of losses, each a dict'),
        (dict(losses=['PKDLoss']), 'losses is to be a list of losses, each a dict'),
        (
            dict(losses=[dict(type='LayerwiseLoss', parts=['backbone'])]),
            'LayerwiseLoss in losses is no MapLoss. Use some of: AttentionTransferLoss, PKDLoss',
        ),
        (
            dict(losses=[dict(ATTENTION, modules=['backbone.layer5'])]),
            "AttentionTransferLoss compares 'backbone.layer5', which the student does not.* backbone, neck, head",
        ),
        (
            dict(teacher={**teacher_config(), 'data_preprocessor': dict(PREPROCESSING, std=[1.0, 1.0, 1.0])}),
            r'trained with std=\[1.0, 1.0, 1.0\].*whose std is \[60.0, 60.0, 60.0\]',
        ),
        (
            dict(teacher={**teacher_config(), 'data_preprocessor': dict(PREPROCESSING, to_rgb=False)}),
            r'trained with to_rgb=\[0.0\].*whose to_rgb is \[1.0\]',
        ),
        (
            dict(teacher={**teacher_config(), 'data_preprocessor': dict(mean=[0.0, 0.0, 0.0])}),
            r'trained with mean=\[0.0, 0.0, 0.0\].*whose mean is \[120.0, 110.0, 100.0\]',
        ),
        (
            dict(teacher=dict(type='ImageClassifier', **network(channels=16, conv_cfg=None))),
            r'teacher cannot.* fills 1 of the \d+ parameters.*; of another shape: backbone.conv1.weight \(8x3x3x3',
        ),
    ],
)
def test_errors_say_what_to_do(build, options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_a_binary_network_is_not_taken_for_a_real_teacher(build, tmp_path):
    """Its keys and shapes are the same, but its weights are latent ones."""
    binary = ImageClassifier(**network(channels=8))
    path = tmp_path / 'binary.pth'
    save_checkpoint(dict(state_dict=binary.state_dict()), str(path))
    with pytest.raises(
        ValueError, match=r'binary.pth: the layer backbone.layer1.0.conv1, as 15 more, was trained with a'
    ):
        build(teacher_checkpoint=str(path))
    taught = dict(type='ImageClassifier', **network(channels=8))
    assert build(teacher=taught, teacher_checkpoint=str(path)).teacher_ready


@pytest.mark.slow  # tests/test_registry.py has the same for a class that builds on mmdet
def test_config_names_it_without_importing_it():
    code = (
        'import sys, rebnn_mm\nfrom mmengine.registry import MODELS\nassert "mmpretrain" not in sys.modules\n'
        'print(MODELS.get("rebnn_mm.TeacherStudentClassifier").__name__)'
    )
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == 'TeacherStudentClassifier'
