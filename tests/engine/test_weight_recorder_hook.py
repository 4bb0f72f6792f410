"""The recorder inside mmengine: it changes nothing, and what it writes is what happened."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from mmengine.hooks import Hook
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import OptimWrapper
from mmengine.registry import MODELS
from mmengine.runner import Runner
from torch import nn

from rebnn_mm.analysis.weight_history import read_weight_history
from rebnn_mm.engine import BinaryWeightRecorderHook
from rebnn_mm.engine.weight_recorder_hook import CHECKPOINT_KEY
from rebnn_mm.layers import BinaryConv2d
from rebnn_mm.methods import BNNLinear
from tests import two_processes
from tests.engine.small_runner import SmallClassifier, log_text, runner_config, trained

# What draws random numbers, turns signs between steps, constrains weights, or has no codes.
METHODS = ['ReBNNConv2d', 'FDAConv2d', 'RBNNConv2d', 'ReCUConv2d', 'XNORConv2d', 'SiMaNConv2d', 'AdaBin']
RESTLESS = {'optimizer': {'type': 'Adam', 'lr': 0.05}}
"""Many signs flip, and flip back, in a few steps."""


def classifier(method):
    torch.manual_seed(0)
    if method == 'AdaBin':
        return SmallClassifier(BinaryConv2d, weight='AdaBinWeight')
    return SmallClassifier(MODELS.get(method))


def test_a_second_training_counts_from_zero():
    hook, epochs = BinaryWeightRecorderHook(), []
    hook._saved = dict(epochs_seen=4)  # of a checkpoint that the first training goes on from
    for _ in range(2):
        net = nn.Sequential(BNNLinear(8, 4))
        wrapper = OptimWrapper(torch.optim.SGD(net.parameters(), lr=0.1))
        hook.before_train(SimpleNamespace(model=net, optim_wrapper=wrapper, iter=3))
        epochs.append(hook._epochs_seen)
    assert epochs == [4, 0]


def hooks(method='ReBNNConv2d', **recorder):
    own = 'ReBNNHook' if method == 'ReBNNConv2d' else 'BinaryHook'
    return [{'type': own}, {'type': 'BinaryWeightRecorderHook', **recorder}]


def run(work_dir, method='ReBNNConv2d', recorder=None, epochs=3, **options):
    options = {'custom_hooks': hooks(method, **(recorder or {})), 'optim_wrapper': dict(RESTLESS), **options}
    return trained(work_dir, classifier(method), epochs=epochs, **options)


def lines(work_dir):
    """The record as it is in the files."""
    files = sorted(work_dir.glob('*/vis_data/binary_weights.jsonl'))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def flat(value, name=''):
    """Every tensor and number of a nested state, by name."""
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    else:
        return {name: value}
    return {key: leaf for inner, part in items for key, leaf in flat(part, f'{name}/{inner}').items()}


def assert_bit_equal(one, other):
    one, other = flat(one), flat(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        same = torch.equal(value, other[name]) if isinstance(value, torch.Tensor) else value == other[name]
        assert same, name


@pytest.mark.parametrize('method', METHODS)
def test_training_is_the_same_to_the_last_bit(tmp_path, method):
    plain = run(tmp_path / 'plain', method, epochs=2, custom_hooks=hooks(method)[:1])
    random = torch.get_rng_state()
    recorded = run(tmp_path / 'recorded', method, epochs=2, recorder={'layers': ['conv1', 'conv2'], 'every': 1})
    assert torch.equal(torch.get_rng_state(), random)
    assert_bit_equal(recorded.model.state_dict(), plain.model.state_dict())
    assert_bit_equal(recorded.optim_wrapper.state_dict(), plain.optim_wrapper.state_dict())
    assert sum(line['layers']['conv1']['flips'] for line in lines(tmp_path / 'recorded')[1:]) > 0
    saved = [torch.load(tmp_path / name / 'epoch_2.pth', weights_only=False) for name in ('plain', 'recorded')]
    assert_bit_equal(saved[1]['state_dict'], saved[0]['state_dict'])
    assert_bit_equal(saved[1]['optimizer'], saved[0]['optimizer'])


class Watch(Hook):
    """Writes down the signs after every iteration, after all other hooks."""

    priority = 'LOWEST'

    def __init__(self, layer):
        self.layer = layer
        self.signs = []

    def before_train(self, runner):
        self.signs.append(self.layer.weight < 0)

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.signs.append(self.layer.weight < 0)


@pytest.mark.parametrize('method', ['ReBNNConv2d', 'XNORConv2d'])
def test_record_is_what_happened_to_the_signs(tmp_path, method):
    model = classifier(method)
    watch = Watch(model.conv2)
    runner = Runner(
        model=model, **runner_config(tmp_path / 'run', 3, custom_hooks=hooks(method), optim_wrapper=RESTLESS)
    )
    runner.register_hook(watch)
    runner.train()
    changed = [one ^ other for one, other in zip(watch.signs, watch.signs[1:], strict=False)]
    ends = watch.signs[::4]
    over_epochs = [one ^ other for one, other in itertools.pairwise(ends)]
    first, *epochs = lines(tmp_path / 'run')
    assert (first['epoch'], first['iteration'], first['layers']) == (0, 0, {})
    for number, line in enumerate(epochs, start=1):
        steps = range(4 * number - 4, 4 * number)
        back = [changed[step] & changed[step - 1] for step in steps if step > 0]
        assert (line['epoch'], line['iteration']) == (number, 4 * number)
        assert line['layers']['conv2'] == {
            'weights': 576,
            'steps': 4,
            'flips': sum(int(changed[step].sum()) for step in steps),
            'sequential_flips': sum(int(both.sum()) for both in back),
            'epoch_flips': int(over_epochs[number - 1].sum()),
            'sequential_epoch_flips': None
            if number == 1
            else int((over_epochs[number - 1] & over_epochs[number - 2]).sum()),
        }
    assert sum(line['layers']['conv2']['sequential_flips'] for line in epochs) > 0


def test_order_of_the_hooks_in_the_config_does_not_matter(tmp_path):
    """XNOR-Net's constraint changes signs and belongs to the step."""
    run(tmp_path / 'behind', 'XNORConv2d', epochs=1)
    run(tmp_path / 'before', 'XNORConv2d', epochs=1, custom_hooks=hooks('XNORConv2d')[::-1])
    assert lines(tmp_path / 'before') == lines(tmp_path / 'behind')


def test_a_resumed_run_goes_on_with_the_record(tmp_path):
    whole = run(tmp_path / 'whole', epochs=4, recorder={'every': 1})
    run(tmp_path / 'parts', epochs=4, recorder={'every': 1}, stop_after=2)
    resumed = run(tmp_path / 'parts', epochs=4, recorder={'every': 1}, resume=True)
    assert_bit_equal(resumed.model.state_dict(), whole.model.state_dict())
    assert_bit_equal(resumed.optim_wrapper.state_dict(), whole.optim_wrapper.state_dict())
    assert lines(tmp_path / 'parts') == lines(tmp_path / 'whole')
    assert [line['epoch'] for line in lines(tmp_path / 'parts')] == [0, 1, 2, 3, 4]


def test_resuming_from_an_earlier_epoch_leaves_each_epoch_once(tmp_path):
    run(tmp_path / 'run', epochs=4)
    straight = read_weight_history(tmp_path / 'run')
    (tmp_path / 'run' / 'last_checkpoint').write_text(str(tmp_path / 'run' / 'epoch_2.pth'))
    run(tmp_path / 'run', epochs=4, resume=True)
    assert [line['epoch'] for line in lines(tmp_path / 'run')] == [0, 1, 2, 3, 4, 3, 4]
    history = read_weight_history(tmp_path / 'run')
    assert history.epochs == straight.epochs == [(1, 4), (2, 8), (3, 12), (4, 16)]
    for layer in ('conv1', 'conv2'):
        for quantity in ('sequential', 'flips', 'sequential-epoch', 'flips-epoch'):
            assert history.flip_percent(layer, quantity) == straight.flip_percent(layer, quantity)


def test_a_pass_stands_for_an_epoch_where_there_is_none_and_may_be_cut_short(tmp_path):
    loop = {'train_cfg': {'by_epoch': False, 'max_iters': 10, 'val_interval': 100}}
    loop['default_hooks'] = {'checkpoint': {'type': 'CheckpointHook', 'by_epoch': False, 'interval': 6}}
    run(tmp_path / 'whole', **loop)
    run(tmp_path / 'parts', **loop)
    (tmp_path / 'parts' / 'last_checkpoint').write_text(str(tmp_path / 'parts' / 'iter_6.pth'))
    run(tmp_path / 'parts', **loop, resume=True)
    assert [(line['epoch'], line['iteration']) for line in lines(tmp_path / 'whole')] == [
        (0, 0),
        (1, 4),
        (2, 8),
        (3, 10),
    ]
    # The loader begins again after iteration 6, so the images differ; which steps are counted does not.
    for name in ('whole', 'parts'):
        history = read_weight_history(tmp_path / name)
        assert history.epochs == [(1, 4), (2, 8), (3, 10)]
        last = {line['epoch']: line['layers'] for line in lines(tmp_path / name)}
        assert [last[epoch]['conv1']['steps'] for epoch in (1, 2, 3)] == [4, 4, 2]
    saved = torch.load(tmp_path / 'whole' / 'iter_6.pth', weights_only=False)[CHECKPOINT_KEY]
    assert saved['epoch']['conv1']['steps'] == 2 and saved['epochs_seen'] == 1


def test_accumulated_iterations_are_one_step(tmp_path):
    run(tmp_path / 'run', epochs=1, optim_wrapper={**RESTLESS, 'accumulative_counts': 2})
    assert lines(tmp_path / 'run')[1]['layers']['conv1']['steps'] == 2


def test_scalars_reach_log_and_tensorboard(tmp_path):
    backends = [{'type': 'LocalVisBackend'}, {'type': 'TensorboardVisBackend'}]
    run(tmp_path / 'run', visualizer={'type': 'Visualizer', 'vis_backends': backends, 'name': 'recorder'})
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(next((tmp_path / 'run').glob('*/vis_data'))))
    events.Reload()
    logged = {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()['scalars']}
    # The resilient gradient counts for itself, every second iteration like the LoggerHook.
    assert list(logged['flips_per_million']) == [2, 4, 6, 8, 10, 12]
    assert logged['flips_per_million'] == logged['rebnn/flips_per_million']
    assert logged['sequential_flips_per_million'] == logged['rebnn/sequential_flips_per_million']
    assert max(logged['sequential_flips_per_million'].values()) > 0
    assert logged['flips_so_far_percent'] == logged['rebnn/flips_so_far_percent']
    history = read_weight_history(tmp_path / 'run')
    for layer in ('conv1', 'conv2'):
        for tag, quantity in (('flip_percent', 'flips'), ('sequential_flip_percent', 'sequential')):
            epochs, values = history.flip_percent(layer, quantity)
            in_log = logged[f'{tag}/{layer}']
            assert list(in_log) == epochs == [1, 2, 3]
            assert list(in_log.values()) == [pytest.approx(value, rel=1e-6) for value in values]  # stored as float32
    text = log_text(tmp_path / 'run')
    assert 'sequential_flips_per_million: ' in text and 'flip_percent/conv1' not in text


def test_latent_weights_and_alpha_are_those_of_the_model(tmp_path):
    runner = run(tmp_path / 'run', recorder={'layers': ['conv2'], 'channels': [0, 7], 'every': 2})
    by_epoch = {line['epoch']: line['channels'] for line in lines(tmp_path / 'run')}
    assert [epoch for epoch, channels in by_epoch.items() if channels] == [0, 2, 3]  # the last one always
    layer = runner.model.conv2
    for entry in by_epoch[3]:
        assert entry['layer'] == 'conv2'
        values = torch.tensor(entry['values'])
        # Four digits.
        torch.testing.assert_close(values, layer.weight.detach()[entry['channel']].flatten(), rtol=5e-4, atol=0)
        assert entry['alpha'] == pytest.approx(layer.alpha[entry['channel']].item(), rel=1e-5)
    assert [entry['channel'] for entry in by_epoch[3]] == [0, 7]


@pytest.mark.parametrize(('method', 'alpha'), [('BNNConv2d', 1.0), ('AdaBin', None)])
def test_alpha_of_a_method_without_a_factor(tmp_path, method, alpha):
    run(tmp_path / 'run', method, epochs=1)
    assert [entry['alpha'] for line in lines(tmp_path / 'run') for entry in line['channels']] == [alpha, alpha]


def test_the_file_stays_within_its_bound(tmp_path):
    run(tmp_path / 'run', epochs=20, recorder={'layers': ['conv1', 'conv2'], 'channels': [0, 1]})
    (file,) = (tmp_path / 'run').glob('*/vis_data/binary_weights.jsonl')
    snapshots = [line['epoch'] for line in lines(tmp_path / 'run') if line['channels']]
    assert snapshots == [0, 3, 6, 9, 12, 15, 18, 20]
    assert file.stat().st_size <= 20 * 2 * 200 + len(snapshots) * 4 * (72 * 11 + 60)
    saved = torch.load(tmp_path / 'run' / 'epoch_20.pth', weights_only=False)[CHECKPOINT_KEY]
    assert all(signs.dtype == torch.uint8 and signs.numel() == 576 for signs in saved['signs'].values())


def _worker(rank, folder):
    """Each process trains with a recorder, and once more without."""
    for name in ('recorded', 'plain'):
        wrapped = MMDistributedDataParallel(module=classifier('ReBNNConv2d'), broadcast_buffers=False)
        used = hooks() if name == 'recorded' else hooks()[:1]
        # As under a launcher, the processes share one work dir.
        trained(Path(folder) / name, wrapped, epochs=2, custom_hooks=used, optim_wrapper=dict(RESTLESS))
        torch.save(wrapped.module.state_dict(), f'{folder}/{name}{rank}.pth')


@pytest.mark.slow
def test_of_two_processes_the_first_writes_and_all_have_the_same_weights(tmp_path):
    two_processes.run(_worker, str(tmp_path))
    assert [line['epoch'] for line in lines(tmp_path / 'recorded')] == [0, 1, 2]
    states = {key: torch.load(tmp_path / f'{key}.pth') for key in ('recorded0', 'recorded1', 'plain0', 'plain1')}
    assert_bit_equal(states['recorded0'], states['plain0'])
    for layer in ('conv1.weight', 'conv2.weight'):
        assert torch.equal(states['recorded0'][layer], states['recorded1'][layer])
    assert lines(tmp_path / 'recorded')[-1]['layers']['conv1']['flips'] > 0


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        ({'layers': ['conv3']}, r"the model trains no binary layer 'conv3'. Did you mean 'conv\d'"),
        ({'layers': ['stem']}, "the model trains no binary layer 'stem'"),
        ({'channels': [0, 8]}, "layer 'conv1' has no channel 8; its 8 channels are 0 to 7"),
        ({'channels': [-1]}, "layer 'conv1' has no channel -1"),
    ],
)
def test_layers_and_channels_that_do_not_exist_are_named(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path / 'run', recorder=options, epochs=1)
    assert not list((tmp_path / 'run').glob('*/vis_data/binary_weights.jsonl'))


def test_options_that_cannot_be_are_named():
    with pytest.raises(ValueError, match='every=0 must be at least 1'):
        BinaryWeightRecorderHook(every=0)
    with pytest.raises(ValueError, match=r"layers='conv1' must be a list of names, \['conv1'\]"):
        BinaryWeightRecorderHook(layers='conv1')


def test_a_model_without_binary_layers_trains_and_is_named(tmp_path):
    model = SmallClassifier()
    model.conv1.stay_real('for this test')
    model.conv2.stay_real('for this test')
    trained(tmp_path / 'run', model, epochs=1, custom_hooks=hooks())
    assert 'BinaryWeightRecorderHook: no binary weight is trained' in log_text(tmp_path / 'run')
    assert lines(tmp_path / 'run') == []


def test_takes_its_handles_away(tmp_path):
    runner = run(tmp_path / 'run', 'BNNConv2d', epochs=1)
    assert not runner.optim_wrapper.optimizer._optimizer_step_post_hooks
