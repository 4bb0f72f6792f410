import pytest
import torch
from mmengine.dataset import pseudo_collate
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner
from torch.utils.data import Dataset

pytest.importorskip('mmdet')


from rebnn_mm.engine import Bfloat16OptimWrapper, ResilientGradient
from tests import two_processes

from .taught_samples import built, sample, taught, total

# Some tests look at a loss only and never step.
pytestmark = pytest.mark.filterwarnings('ignore:.*trained without the resilient gradient')


class Data(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return sample(index)


def train(model, folder, epochs=2, **options):
    runner = Runner(
        model,
        str(folder),
        train_dataloader=dict(
            batch_size=2,
            num_workers=0,
            dataset=Data(),
            sampler=dict(type='DefaultSampler', shuffle=True),
            collate_fn=pseudo_collate,
        ),
        train_cfg=dict(by_epoch=True, max_epochs=epochs),
        optim_wrapper=dict(
            constructor='BinaryOptimWrapperConstructor',
            optimizer=dict(type='SGD', lr=0.01, momentum=0.9),
        ),
        custom_hooks=[dict(type='ReBNNHook'), *options.pop('custom_hooks', [])],
        default_scope='mmdet',
        experiment_name=f'{folder.parent.name}_{folder.name}',
        randomness=dict(seed=0),
        log_level='ERROR',
        **options,
    )
    runner.train()
    return runner


def raw(teacher_file, **options):
    """A student that has not been initialised: the runner does it."""
    torch.manual_seed(0)
    return built(taught(teacher_file, **options))


def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(teacher_file, tmp_path):
    # The sampler of regions draws.
    hooks = [dict(type='IterSeedHook')]
    straight = train(raw(teacher_file, start_from_teacher=True), tmp_path / 'straight', epochs=2, custom_hooks=hooks)
    state = straight.model.state_dict()
    resumed = train(
        raw(teacher_file, start_from_teacher=True),
        tmp_path / 'resumed',
        epochs=2,
        custom_hooks=hooks,
        load_from=str(tmp_path / 'straight' / 'epoch_1.pth'),
        resume=True,
    )
    # The start from the teacher, which every start of the runner makes, does not undo what was trained.
    assert all(torch.equal(state[name], value) for name, value in resumed.model.state_dict().items())


def test_statistics_of_norms_taken_anew(teacher_file, tmp_path):
    """mmpretrain's hook sets those of the student to the means over the images, and leaves the teacher's."""
    pytest.importorskip('mmpretrain')
    hook = dict(type='mmpretrain.PreciseBNHook', num_samples=4)
    model = train(raw(teacher_file), tmp_path / 'run', epochs=1, custom_hooks=[hook]).model
    images = model.data_preprocessor(pseudo_collate([sample(index) for index in range(4)]))['inputs']
    mean = model.backbone.conv1(images).mean((0, 2, 3))
    assert torch.allclose(model.backbone.bn1.running_mean, mean, atol=1e-4)
    saved = torch.load(teacher_file)['state_dict']
    assert all(torch.equal(value, saved[name]) for name, value in model.teacher.state_dict().items())


def _ddp_worker(rank, teacher_file, folder):
    model = raw(teacher_file)
    wrapped = MMDistributedDataParallel(model)
    model.init_weights()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ResilientGradient(wrapped).attach(optimizer)
    wrapper = OptimWrapper(optimizer)
    for _ in range(2):
        wrapped.train_step(pseudo_collate([sample(2 * rank), sample(2 * rank + 1)]), wrapper)
    torch.save(dict(parameters=dict(model.named_parameters()), teacher=model.teacher.state_dict()), f'{folder}/{rank}')


@pytest.mark.slow
def test_two_processes_keep_one_student(teacher_file, tmp_path):
    """DDP finds every parameter used (it would raise in the second step) and has the same student everywhere."""
    two_processes.run(_ddp_worker, str(teacher_file), str(tmp_path))
    first, second = (torch.load(tmp_path / str(rank)) for rank in (0, 1))
    assert all(torch.equal(value, second['parameters'][name]) for name, value in first['parameters'].items())
    saved = torch.load(teacher_file)['state_dict']
    assert all(torch.equal(value, saved[name]) for name, value in second['teacher'].items())


def test_boxes_of_both_detectors_stay_in_float32_where_the_rest_is_bfloat16(build):
    model = build()
    wrapper = Bfloat16OptimWrapper(optimizer=torch.optim.SGD(model.parameters(), lr=0.01))
    seen = set()
    for name, detector in (('student', model), ('teacher', model.teacher)):
        detector.backbone.register_forward_hook(
            lambda module, inputs, maps, name=name: seen.add((name, 'maps', maps[0].dtype))
        )
        detector.roi_head.bbox_roi_extractor.roi_layers[0].register_forward_pre_hook(
            lambda module, inputs, name=name: seen.add((name, 'regions', *(each.dtype for each in inputs)))
        )
    hooks = [len(module._forward_hooks) for module in model.modules()]
    with wrapper.optim_context(model):
        loss = total(model)
    full = total(build())
    assert seen == {
        entry
        for name in ('student', 'teacher')
        for entry in ((name, 'maps', torch.bfloat16), (name, 'regions', torch.float32, torch.float32))
    }
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, full, rtol=0.05, atol=0)
    assert hooks == [len(module._forward_hooks) for module in model.modules()]
    before = model.rpn_head.rpn_reg.weight.clone()
    wrapper.update_params(loss)
    assert not torch.equal(before, model.rpn_head.rpn_reg.weight)
