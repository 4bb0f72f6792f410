"""The method inside mmengine."""

import json
from types import SimpleNamespace

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.optim import OptimWrapper
from mmengine.runner import Runner
from torch import nn

from rebnn_mm.engine import ReBNNHook
from rebnn_mm.engine.rebnn_hook import CHECKPOINT_KEY
from rebnn_mm.methods import ReBNNLinear
from tests.engine.small_runner import Images, SmallClassifier, log_text, runner_config, trained


def weights(runner):
    model = runner.model
    return {name: value.clone() for name, value in model.state_dict().items()}


def assert_bit_equal(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name


def test_a_second_training_counts_from_zero():
    hook, flips = ReBNNHook(calibrate=False), []
    hook._saved_counts = {'0': {'flips': 5, 'steps': 2}}  # of a checkpoint that the first training goes on from
    for _ in range(2):
        net = nn.Sequential(ReBNNLinear(8, 4))
        wrapper = OptimWrapper(torch.optim.SGD(net.parameters(), lr=0.1))
        runner = dict(model=net, optim_wrapper=wrapper, hooks=[], param_schedulers=None, iter=3, max_iters=8)
        hook.before_train(SimpleNamespace(**runner))
        flips.append(hook.resilient.layers[0].all_flips)
    assert flips == [5, 0]


class InterruptOnce(Hook):
    """Ends the first training in its third iteration."""

    interrupted = False

    def after_train_iter(self, runner, *args, **kwargs):
        if runner.iter == 2 and not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt


def test_a_training_that_was_interrupted_may_begin_again(tmp_path):
    hooks = [dict(type='ReBNNHook'), dict(type='BinaryWeightRecorderHook')]
    runner = Runner(model=SmallClassifier(), **runner_config(tmp_path, custom_hooks=hooks))
    runner.register_hook(InterruptOnce(), 'LOWEST')
    with pytest.raises(KeyboardInterrupt):
        runner.train()
    runner.train()
    assert not runner.optim_wrapper.optimizer._optimizer_step_post_hooks
    (rebnn,) = (hook for hook in runner.hooks if isinstance(hook, ReBNNHook))
    assert {layer.all_steps for layer in rebnn.resilient.layers} == {8}


@pytest.mark.parametrize(
    'options',
    [
        {},
        {'gamma_bounds': None},
        {'flip_window': 3, 'gamma_bounds': None},
        {'flip_window': 'epoch'},
        {'gamma': 1e-3},
        {'center': 'row', 'flip_window': 3, 'gamma_bounds': None},
    ],
    ids=str,
)
def test_resumed_run_is_bit_equal(tmp_path, options):
    torch.manual_seed(0)
    whole = trained(tmp_path / 'whole', SmallClassifier(**options), epochs=4)
    torch.manual_seed(0)
    trained(tmp_path / 'parts', SmallClassifier(**options), epochs=2)
    resumed = trained(tmp_path / 'parts', SmallClassifier(**options), epochs=4, resume=True)
    assert resumed.epoch == 4
    assert_bit_equal(weights(resumed), weights(whole))


def test_open_flip_window_travels_in_the_checkpoint(tmp_path):
    trained(tmp_path / 'run', SmallClassifier(flip_window=3), epochs=1)
    saved = torch.load(tmp_path / 'run' / 'epoch_1.pth', weights_only=False)[CHECKPOINT_KEY]
    # Four steps: one window of three is closed, the next one has seen one step.
    assert saved['conv1']['window_steps'] == 1 and saved['conv1']['window_start'].dtype == torch.bool


def test_flips_so_far_travel_in_the_checkpoint(tmp_path):
    trained(tmp_path / 'whole', epochs=4)
    trained(tmp_path / 'parts', epochs=2)
    trained(tmp_path / 'parts', epochs=4, resume=True)
    counts = [
        torch.load(tmp_path / run / 'epoch_4.pth', weights_only=False)[CHECKPOINT_KEY] for run in ('whole', 'parts')
    ]
    assert counts[0] == counts[1] and counts[0]['conv1']['steps'] == 16 and counts[0]['conv1']['flips'] > 0


def test_resume_keeps_gamma_alpha_and_shift_of_the_checkpoint(tmp_path):
    first = weights(trained(tmp_path / 'run', SmallClassifier(gamma_bounds=None), epochs=1))
    optim = {'optimizer': {'type': 'SGD', 'lr': 0.0}}
    again = trained(
        tmp_path / 'again',
        SmallClassifier(gamma=0.0),
        epochs=1,
        load_from=str(tmp_path / 'run' / 'epoch_1.pth'),
        optim_wrapper=optim,
    )
    for name in ('conv1.weight_quantizer.alpha', 'conv1.activation_quantizer.shift'):
        assert torch.equal(weights(again)[name], first[name]), name


def test_alpha_follows_a_checkpoint_without_alpha(tmp_path):
    source = SmallClassifier().state_dict()
    real = {name: value * 3 for name, value in source.items() if 'quantizer' not in name}
    torch.save({'state_dict': real}, tmp_path / 'real.pth')
    runner = trained(
        tmp_path / 'run',
        load_from=str(tmp_path / 'real.pth'),
        epochs=1,
        optim_wrapper={'optimizer': {'type': 'SGD', 'lr': 0.0}},
    )
    conv = runner.model.conv1
    assert torch.equal(conv.weight.data, real['conv1.weight'])
    torch.testing.assert_close(conv.alpha.data, conv.weight.abs().mean(dim=(1, 2, 3)))


def test_alpha_follows_init_weights(tmp_path):
    model = SmallClassifier()
    model.init_cfg = {'type': 'Constant', 'val': 0.25, 'layer': 'Conv2d'}
    runner = trained(tmp_path / 'run', model, epochs=1, optim_wrapper={'optimizer': {'type': 'SGD', 'lr': 0.0}})
    assert (runner.model.conv1.weight == 0.25).all()
    assert torch.allclose(runner.model.conv1.alpha, torch.tensor(0.25))


def test_shift_starts_at_the_mean_behind_a_relu_and_every_layer_learns(tmp_path):
    runner = trained(tmp_path / 'run', epochs=1, optim_wrapper={'optimizer': {'type': 'SGD', 'lr': 0.0}})
    images = Images().images[[0, 4, 8, 12]]
    model = runner.model
    expected = torch.relu(model.stem(images)).mean(dim=(0, 2, 3))
    torch.testing.assert_close(-model.conv1.activation_quantizer.shift.data, expected)
    assert 'started the shifts of 2 layers' in log_text(tmp_path / 'run')

    learned = trained(tmp_path / 'learned', epochs=1).model
    seen = {}
    for name in ('conv1', 'conv2'):
        quantizer = getattr(learned, name).activation_quantizer
        quantizer.register_forward_hook(
            lambda module, args, out, name=name: seen.update({name: out.unique().tolist()})
        )
    learned.train()(images, torch.tensor([0, 1, 2, 0]), mode='loss')['loss'].backward()
    assert seen == {'conv1': [-1.0, 1.0], 'conv2': [-1.0, 1.0]}
    assert all(getattr(learned, name).weight.grad.abs().amax(dim=(1, 2, 3)).all() for name in seen)


def test_calibration_changes_nothing_but_the_shifts(tmp_path):
    """No random number is drawn and no running statistic is moved."""
    optim = {'optimizer': {'type': 'SGD', 'lr': 0.0}}
    torch.manual_seed(0)
    model = SmallClassifier(activation={'type': 'BinaryRSign', 'shift': 'zero'})
    plain = trained(tmp_path / 'plain', model, epochs=1, optim_wrapper=optim)
    state = torch.get_rng_state()
    swapped = trained(tmp_path / 'swapped', SmallClassifier(), epochs=1, optim_wrapper=optim)
    assert torch.equal(torch.get_rng_state(), state)
    assert swapped.model.bn1.num_batches_tracked == plain.model.bn1.num_batches_tracked == 4


def test_statistics_reach_log_and_visualizer(tmp_path):
    backends = [{'type': 'LocalVisBackend'}, {'type': 'TensorboardVisBackend'}]
    trained(tmp_path / 'run', visualizer={'type': 'Visualizer', 'vis_backends': backends, 'name': 'statistics'})
    names = [
        'flips_per_million',
        'sequential_flips_per_million',
        'flips_so_far_percent',
        'term_share_median_percent',
        'term_share_max_percent',
        'gamma_mean_x1e6',
        'gamma_at_lower_percent',
        'gamma_at_upper_percent',
        'alpha_over_mean_abs_w',
        'masked_percent',
    ]
    (scalars,) = (tmp_path / 'run').glob('*/vis_data/scalars.json')
    rows = [json.loads(line) for line in scalars.read_text().splitlines()]
    assert len(rows) == 4
    for name in names:
        assert all(f'rebnn/{name}' in row for row in rows), name
        assert f'rebnn/{name}: ' in log_text(tmp_path / 'run')
    assert all(row['rebnn/gamma_mean_x1e6'] >= 10 * (1 - 1e-6) for row in rows)
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(next((tmp_path / 'run').glob('*/vis_data'))))
    events.Reload()
    assert {f'rebnn/{name}' for name in names} <= set(events.Tags()['scalars'])


def test_log_is_never_stale(tmp_path):
    """The LoggerHook counts within an epoch; with five iterations and an interval of two it prints after 2 and 4."""
    flips = {}
    for interval in (1, 2):
        folder = tmp_path / str(interval)
        config = runner_config(folder)
        loader = {**config['train_dataloader'], 'batch_size': 3, 'drop_last': True}
        hooks = {**config['default_hooks'], 'logger': {'type': 'LoggerHook', 'interval': interval}}
        trained(folder, epochs=3, train_dataloader=loader, default_hooks=hooks)
        (scalars,) = folder.glob('*/vis_data/scalars.json')
        rows = [json.loads(line) for line in scalars.read_text().splitlines()]
        flips[interval] = [row['rebnn/flips_so_far_percent'] for row in rows]
    # One step earlier it was not the same.
    assert len(flips[1]) == 15 and any(flips[1][step - 1] != flips[1][step - 2] for step in (7, 9))
    assert flips[2] == [flips[1][step - 1] for step in (2, 4, 7, 9, 12, 14)]


def test_drowning_term_and_frozen_signs_are_warned_about_once(tmp_path):
    model = SmallClassifier(gamma=10.0)
    model.conv2.weight.data *= 1e4
    options = {'epochs': 60, 'train_cfg': {'by_epoch': True, 'max_epochs': 60}}
    wrapper = {
        'optimizer': {'type': 'SGD', 'lr': 1e-4},
        'paramwise_cfg': {'roles': {'latent_weight': {'relative': False}}},
    }
    trained(tmp_path / 'run', model, optim_wrapper=wrapper, **options)
    text = log_text(tmp_path / 'run')
    assert text.count("% of the task's gradient in layer 'conv") == 1 and 'max_share=0.01' in text
    assert text.count('have not flipped a sign since training began (') == 1 and 'conv2' in text
    trained(tmp_path / 'fine', epochs=2)
    assert "task's gradient in layer" not in log_text(tmp_path / 'fine')


def test_weights_that_have_outgrown_their_gradient_are_warned_about_once(tmp_path):
    model = SmallClassifier()
    model.conv1.weight.data[:4].clamp_(min=0.01).mul_(1000)
    trained(tmp_path / 'run', model, epochs=2)
    text = log_text(tmp_path / 'run')
    assert text.count("50 % of the latent weights of layer 'conv1' have grown beyond 1") == 1 and 'lr_mult=0.2' in text
    trained(tmp_path / 'fine', epochs=2)
    assert 'beyond 1' not in log_text(tmp_path / 'fine')


def test_layer_table_is_logged_once(tmp_path):
    trained(tmp_path / 'run')
    text = log_text(tmp_path / 'run')
    assert text.count('binary and full-precision layers:') == 1
    assert '2 of 4 layers are binary; they hold 1,152 of 1,392 weights (82.8 %).' in text
    assert 'first layer (3 input channels)' in text


def test_missing_constructor_is_named(tmp_path):
    trained(tmp_path / 'without', constructor=False, epochs=1)
    text = log_text(tmp_path / 'without')
    assert (
        "8 scaling factors, shifts and norms get weight decay. Set optim_wrapper=dict(constructor='BinaryOptim" in text
    )
    trained(tmp_path / 'with', epochs=1)
    assert 'BinaryOptimWrapperConstructor' not in log_text(tmp_path / 'with')


def test_model_without_binary_layers_is_named(tmp_path):
    model = SmallClassifier()
    model.conv1.stay_real('for this test')
    model.conv2.stay_real('for this test')
    trained(tmp_path / 'run', model, epochs=1)
    assert 'the model has no binary layer' in log_text(tmp_path / 'run')


def test_epoch_window_needs_epochs(tmp_path):
    config = runner_config(tmp_path / 'run')
    config['train_cfg'] = {'by_epoch': False, 'max_iters': 4}
    with pytest.raises(ValueError, match="flip_window='epoch' needs a train loop with epochs"):
        Runner(model=SmallClassifier(flip_window='epoch'), **config).train()


def test_data_without_length_is_named(tmp_path):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([Images()[index] for index in range(16)])

    config = runner_config(tmp_path / 'run')
    config['train_dataloader'] |= {'dataset': Stream(), 'sampler': None}
    config['train_cfg'] = {'by_epoch': False, 'max_iters': 2}
    with pytest.raises(ValueError, match='Stream has no length.*calibrate=False'):
        Runner(model=SmallClassifier(), **config).train()


def test_ema_does_not_change_training_and_copies_gamma(tmp_path):
    plain = trained(tmp_path / 'plain', epochs=2)
    config = {'custom_hooks': [{'type': 'ReBNNHook'}, {'type': 'EMAHook', 'momentum': 0.5}]}
    averaged = trained(tmp_path / 'ema', epochs=2, **config)
    assert_bit_equal(weights(averaged), weights(plain))
    ema = torch.load(tmp_path / 'ema' / 'epoch_2.pth', weights_only=False)
    model = averaged.model
    for layer in ('conv1', 'conv2'):
        key = f'{layer}.weight_quantizer.gamma'
        # The checkpoint holds the averaged model as state_dict and the trained one as ema_state_dict.
        assert torch.equal(ema['state_dict'][key], getattr(model, layer).gamma)
    assert not torch.equal(ema['state_dict']['conv1.weight'], model.conv1.weight)


def test_accumulation_in_the_optim_wrapper_gives_one_update_per_step(tmp_path):
    optim = {'accumulative_counts': 2, 'optimizer': {'type': 'SGD', 'lr': 0.05}}
    runner = trained(tmp_path / 'run', epochs=1, optim_wrapper=optim)
    hook = next(hook for hook in runner.hooks if isinstance(hook, ReBNNHook))
    # Four iterations are two optimizer steps; the last two iterations, one step, follow the last logged one.
    assert sum(layer.steps for layer in hook.resilient.layers) == 0
    state = runner.optim_wrapper.optimizer.state_dict()['state']
    assert state == {} or all('step' not in entry for entry in state.values())


def test_checkpoint_loads_with_weights_only(tmp_path):
    model = trained(tmp_path / 'run', epochs=1).model
    torch.save(model.state_dict(), tmp_path / 'weights.pth')
    loaded = torch.load(tmp_path / 'weights.pth', weights_only=True)
    assert SmallClassifier().load_state_dict(loaded).missing_keys == []
