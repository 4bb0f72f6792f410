"""Every method inside mmengine."""

from pathlib import Path

import pytest
import torch
from mmengine.model import MMDistributedDataParallel
from mmengine.registry import MODELS
from torch import nn

from rebnn_mm.engine import BinaryHook, MethodDriver
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.methods import RBNNConv2d
from tests import two_processes
from tests.engine.small_runner import Images, SmallClassifier, log_text, trained

METHODS = sorted(
    name
    for name, cls in MODELS.module_dict.items()
    if isinstance(cls, type) and issubclass(cls, BinaryConv2d) and name not in ('BinaryConv2d', 'ReBNNConv2d')
    if cls.__module__.startswith('rebnn_mm.')
)


def classifier(method):
    torch.manual_seed(0)
    return SmallClassifier(MODELS.get(method))


def state(runner):
    return {name: value.clone() for name, value in runner.model.state_dict().items()}


class Recorder:
    """Writes down the progress that a quantizer is told."""

    def __init__(self, quantizer):
        self.seen = []
        original = quantizer.set_progress
        quantizer.set_progress = lambda done: (self.seen.append(round(done, 4)), original(done))


@pytest.mark.parametrize('method', METHODS)
def test_trains_and_resumes_bit_equal(tmp_path, method):
    whole = state(trained(tmp_path / 'whole', classifier(method), epochs=3, hook='BinaryHook'))
    # A run of three epochs that was stopped after the second: schedules look at the whole length.
    parts = trained(tmp_path / 'parts', classifier(method), epochs=3, hook='BinaryHook', stop_after=2)
    assert parts.epoch == 2 and (tmp_path / 'parts' / 'epoch_2.pth').is_file()
    resumed = trained(tmp_path / 'parts', classifier(method), epochs=3, hook='BinaryHook', resume=True)
    assert resumed.epoch == 3 and 'resumed epoch: 2' in log_text(tmp_path / 'parts')
    for name, value in state(resumed).items():
        assert torch.equal(value, whole[name]), name
    assert all(value.isfinite().all() for value in whole.values())
    start = classifier(method).state_dict()
    assert not torch.equal(whole['conv1.weight'], start['conv1.weight'])


@pytest.mark.parametrize('method', METHODS)
def test_autocast_and_loss_scaling_train(method):
    model = classifier(method)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    driver = MethodDriver(model).attach(optimizer)
    driver.set_progress(0.0)
    driver.begin_epoch()
    scaler = torch.amp.GradScaler('cpu', init_scale=1024.0)
    before = model.conv1.weight.detach().clone()
    with torch.autocast('cpu', torch.bfloat16):
        batch = [Images()[i] for i in range(4)]
        loss = model(*(torch.stack([sample[key] for sample in batch]) for key in ('inputs', 'labels')), mode='loss')
    scaler.scale(loss['loss']).backward()
    scaler.step(optimizer)
    assert model.conv1.weight.dtype == torch.float32 and not torch.equal(model.conv1.weight, before)
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_schedule_moves_with_epochs_with_iterations_and_with_a_loop_without_epochs(tmp_path):
    seen = {}
    for name, options in {
        'epochs': {'hook': 'BinaryHook'},
        'iterations': {'hook': {'type': 'BinaryHook', 'schedule': 'iter'}},
        'no epochs': {'hook': 'BinaryHook', 'train_cfg': {'by_epoch': False, 'max_iters': 4}},
    }.items():
        model = classifier('ReCUConv2d')
        recorder = Recorder(model.conv1.weight_quantizer)
        trained(tmp_path / name, model, epochs=2, **options)
        seen[name] = recorder.seen
    eighths = [i / 8 for i in range(8)]
    assert seen == {'epochs': [0.0, 0.5], 'iterations': eighths, 'no epochs': [0.0, 0.25, 0.5, 0.75]}


def test_epoch_schedule_without_epochs_is_refused(tmp_path):
    options = {'hook': {'type': 'BinaryHook', 'schedule': 'epoch'}, 'train_cfg': {'by_epoch': False, 'max_iters': 4}}
    with pytest.raises(ValueError, match="BinaryHook: schedule='epoch' needs a train loop with epochs"):
        trained(tmp_path / 'run', classifier('ReCUConv2d'), **options)
    with pytest.raises(ValueError, match="BinaryHook: schedule='step' is unknown; use 'epoch', 'iter' or None"):
        BinaryHook(schedule='step')


def test_a_pass_over_the_data_stands_for_an_epoch_where_there_are_none(tmp_path):
    model = classifier('ReCUConv2d')
    calls = []
    model.conv1.weight_quantizer.begin_epoch = lambda weight: calls.append(weight.shape)
    trained(tmp_path / 'run', model, hook='BinaryHook', train_cfg={'by_epoch': False, 'max_iters': 9})
    assert len(calls) == 3  # before iterations 0, 4 and 8


def test_schedule_follows_a_resumed_run_without_epochs(tmp_path):
    loop = {'by_epoch': False, 'max_iters': 8, 'val_interval': 100}
    hooks = {'checkpoint': {'type': 'CheckpointHook', 'by_epoch': False, 'interval': 5}}
    trained(tmp_path / 'run', classifier('ReCUConv2d'), hook='BinaryHook', train_cfg=loop, default_hooks=hooks)
    (tmp_path / 'run' / 'last_checkpoint').write_text(str(tmp_path / 'run' / 'iter_5.pth'))
    model = classifier('ReCUConv2d')
    recorder = Recorder(model.conv1.weight_quantizer)
    trained(tmp_path / 'run', model, hook='BinaryHook', train_cfg=loop, default_hooks=hooks, resume=True)
    assert recorder.seen == [5 / 8, 6 / 8, 7 / 8]


def test_hook_takes_its_handles_away(tmp_path):
    runner = trained(tmp_path / 'run', classifier('BNNConv2d'), epochs=1, hook='BinaryHook')
    assert not runner.model.conv1.weight_quantizer.driven
    assert not runner.optim_wrapper.optimizer._optimizer_step_post_hooks


def test_says_that_nothing_is_binary_and_that_shifts_get_decay(tmp_path):
    real = SmallClassifier(nn.Conv2d)
    trained(tmp_path / 'real', real, epochs=1, hook='BinaryHook')
    assert 'BinaryHook: the model has no binary layer' in log_text(tmp_path / 'real')
    trained(tmp_path / 'plain', classifier('BNNConv2d'), epochs=1, hook='BinaryHook', constructor=False)
    assert (
        "BinaryHook: 6 scaling factors, shifts and norms get weight decay. Set optim_wrapper=dict(constructor='"
        in (log_text(tmp_path / 'plain'))
    )


def test_names_what_a_config_of_a_real_network_freezes(tmp_path):
    model = classifier('BNNConv2d')
    model.conv1.requires_grad_(False)
    model.conv2 = nn.Sequential(model.conv2)
    model.conv2.norm_eval = True
    trained(tmp_path / 'frozen', model, epochs=1, hook='BinaryHook')
    said = log_text(tmp_path / 'frozen')
    assert "1 of 2 binary layers are frozen, 'conv1' first" in said and 'norm_eval=True in conv2: norms keep' in said
    trained(tmp_path / 'free', classifier('BNNConv2d'), epochs=1, hook='BinaryHook')
    assert 'are frozen' not in log_text(tmp_path / 'free') and 'norm_eval' not in log_text(tmp_path / 'free')


@pytest.mark.parametrize(
    ('optimizer', 'roles', 'warned'),
    [
        (dict(type='SGD', lr=0.01), {}, True),
        (dict(type='SGD', lr=0.01), dict(latent_weight=dict(lr_mult=80)), False),
        (dict(type='SGD', lr=0.8), {}, False),
        (dict(type='Adam', lr=5e-4), {}, False),
    ],
)
def test_sgd_that_cannot_turn_the_signs_is_named_before_the_first_step(tmp_path, optimizer, roles, warned):
    wrapper = dict(optimizer=optimizer, paramwise_cfg=dict(roles=roles))
    trained(tmp_path / 'run', epochs=75, stop_after=1, optim_wrapper=wrapper, hook='BinaryHook')
    said = log_text(tmp_path / 'run')
    assert ('SGD at this rate will leave most signs where they start in 300 steps' in said) is warned
    assert ('raise the rate of latent weights 67 times' in said) is warned
    assert not warned or said.index('SGD at this rate') < said.index('Epoch(train)')


def test_a_frozen_layer_that_was_trained_is_right(tmp_path):
    model = classifier('ReCUConv2d')
    model.load_state_dict(classifier('ReCUConv2d').state_dict())
    model.conv1.requires_grad_(False)
    trained(tmp_path / 'run', model, epochs=1, hook='BinaryHook')
    assert 'are frozen' not in log_text(tmp_path / 'run')


def _worker(rank, folder, method):
    model = classifier(method)
    if rank == 1:
        # State outside the gradient is the first process's, whatever this one started from.
        for buffer in model.conv1.weight_quantizer.buffers():
            buffer.add_(0.1)
    wrapped = MMDistributedDataParallel(module=model, broadcast_buffers=False)
    trained(Path(folder) / f'run{rank}', wrapped, epochs=2, hook='BinaryHook')
    torch.save(model.state_dict(), f'{folder}/{rank}.pth')


@pytest.mark.parametrize('method', ['RBNNConv2d', 'ReCUConv2d', pytest.param('OvSWConv2d', marks=pytest.mark.slow)])
def test_two_processes_have_the_same_state(tmp_path, method):
    two_processes.run(_worker, str(tmp_path), method)
    one, two = (torch.load(tmp_path / f'{rank}.pth') for rank in (0, 1))
    assert all(torch.equal(value, two[name]) for name, value in one.items() if 'bn' not in name)


def test_quantizers_of_a_model_without_binary_layers_follow_their_schedule(tmp_path):
    """Those inside attention belong to no layer."""
    model = SmallClassifier(nn.Conv2d)
    model.attention = MODELS.build({'type': 'RBNNSign', 'channels': 8})
    start = float(model.attention.sharpness)
    trained(tmp_path / 'run', model, epochs=5, hook='BinaryHook')
    assert float(model.attention.sharpness) > start
    assert 'has no binary layer' not in log_text(tmp_path / 'run')


def test_rotations_are_not_averaged(tmp_path):
    ema = dict(type='EMAHook', momentum=0.3, update_buffers=True)
    options = dict(hook=None, custom_hooks=[dict(type='BinaryHook'), ema], epochs=2)
    model = trained(tmp_path / 'run', SmallClassifier(RBNNConv2d), **options).model
    saved = torch.load(tmp_path / 'run' / 'epoch_2.pth', weights_only=False)['state_dict']
    key = 'conv1.weight_quantizer.right'
    assert torch.equal(saved[key], model.state_dict()[key])
    assert not torch.equal(saved['bn1.running_mean'], model.bn1.running_mean)
    resumed = trained(tmp_path / 'run', SmallClassifier(RBNNConv2d), **{**options, 'epochs': 3}, resume=True).model
    resumed.load_state_dict(torch.load(tmp_path / 'run' / 'epoch_3.pth', weights_only=False)['state_dict'])
    resumed.eval()
