import numpy as np
import pytest
import torch
from mmengine.model import BaseTTAModel
from mmengine.runner import CheckpointLoader
from torch import nn

from rebnn_mm.methods import ReBNNConv2d, ReCUConv2d
from rebnn_mm.utils import checkpoint
from rebnn_mm.utils.checkpoint import check_checkpoint, check_checkpoint_file, match_keys
from tests.refusal import refusal


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, bias=False)
        self.bn = nn.BatchNorm2d(width)
        self.fc = nn.Linear(width, 2)


class TwoViews(BaseTTAModel):
    def merge_preds(self, data_samples_list):
        return data_samples_list


@pytest.fixture
def save(tmp_path):
    def run(state_dict):
        path = str(tmp_path / 'saved.pth')
        torch.save({'state_dict': state_dict}, path)
        return path

    return run


def test_missing_file_is_one_sentence_and_urls_are_left_alone(tmp_path):
    path = tmp_path / 'epoch_1.pth'
    assert refusal(check_checkpoint_file, str(path)) == f'no checkpoint at {path}.'
    assert refusal(check_checkpoint_file, 'torchvision://resnet18') is None
    path.touch()
    assert refusal(check_checkpoint_file, str(path)) is None


def test_own_checkpoint_is_silent_also_without_buffers_and_from_a_distributed_run(save):
    state = Net().state_dict()
    assert refusal(check_checkpoint, Net(), save(state)) is None
    assert refusal(check_checkpoint, Net(), save({f'module.{key}': value for key, value in state.items()})) is None
    del state['bn.running_mean'], state['bn.num_batches_tracked']
    assert refusal(check_checkpoint, Net(), save(state)) is None


def test_a_deeper_network_is_another_one(save):
    class Tested(nn.Sequential):
        def test_step(self, data):
            return data

    one, two = (Tested(*(Net() for _ in range(depth))) for depth in (1, 2))
    message = refusal(check_checkpoint, one, save(two.state_dict()))
    assert 'is of a deeper network: this model has no 1.bn.bias' in message and message.endswith('in the work dir).')
    assert refusal(check_checkpoint, TwoViews(module=one), save(two.state_dict())) == message
    assert refusal(check_checkpoint, one[0], save(one[0].state_dict() | {'mask_head.weight': torch.zeros(1)})) is None
    assert refusal(check_checkpoint, one, save(two.state_dict()), partial=True) is None


def test_counts_and_names_what_differs(save):
    state = Net(width=8).state_dict()
    state['head.weight'] = state.pop('bn.bias')
    match = match_keys(Net(), state)
    assert match.matched == ['fc.bias']
    assert match.missing == ['bn.bias']
    assert match.unexpected == ['head.weight']
    message = refusal(check_checkpoint, Net(), save(state))
    assert 'fills 1 of the 5 parameters' in message
    assert 'missing: bn.bias' in message and 'unexpected: head.weight' in message
    assert 'conv.weight (8x3x3x3 in the checkpoint, 4x3x3x3 in the model)' in message
    assert 'Use the config it was trained with' in message


def test_fine_tuning_may_fill_a_part_but_not_nothing(save):
    state = Net().state_dict()
    del state['fc.weight']
    assert refusal(check_checkpoint, Net(), save(state)) is not None
    assert refusal(check_checkpoint, Net(), save(state), partial=True) is None
    assert 'fills 0 of the 5' in refusal(check_checkpoint, Net(), save({'x': torch.ones(1)}), partial=True)


def test_looks_through_test_time_augmentation(save):
    class Tested(Net):
        def test_step(self, data):
            return data

    assert refusal(check_checkpoint, TwoViews(module=Tested()), save(Net().state_dict())) is None


def block(conv, *args):
    return nn.Sequential(nn.Conv2d(3, 4, 3), conv(4, 4, 3, bias=False), *(conv(4, 4, 1, bias=False) for _ in args))


def test_latent_weights_do_not_fill_a_real_layer(save):
    binary = save(block(ReBNNConv2d, 'two').state_dict())
    for partial in (False, True):
        assert refusal(check_checkpoint, block(ReBNNConv2d, 'two'), binary, partial=partial) is None
    assert refusal(check_checkpoint, block(nn.Conv2d, 'two'), binary) == (
        f'{binary}: the layer 1, as 1 more, was trained with a quantizer that this model does not give it '
        '(1.activation_quantizer.shift is in the checkpoint only). Use the config it was trained with (it is next '
        'to it, in the work dir).'
    )


def test_real_weights_do_not_fill_a_binary_layer_but_start_its_training(save):
    real = save(block(nn.Conv2d).state_dict())
    message = refusal(check_checkpoint, block(ReBNNConv2d), real)
    assert f'{real}: the layer 1 was trained without a quantizer that this model gives it (1.' in message
    assert refusal(check_checkpoint, block(ReBNNConv2d), real, partial=True) is None


def test_buffers_of_quantizers_are_required(save):
    state = block(ReCUConv2d).state_dict()
    assert refusal(check_checkpoint, block(ReCUConv2d), save(state)) is None
    del state['1.weight_quantizer.tau']
    assert '(1.weight_quantizer.tau is in the model only)' in refusal(check_checkpoint, block(ReCUConv2d), save(state))
    state['1.weight_quantizer.tau'] = torch.zeros(2)
    message = refusal(check_checkpoint, block(ReCUConv2d), save(state))
    assert 'of another shape: 1.weight_quantizer.tau (2 in the checkpoint, scalar in the model)' in message


def test_a_start_is_loaded_by_its_name_and_another_name_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, 'STARTS', tmp_path)
    scale = np.array([[0.5], [2.0]], np.float32)
    np.savez(tmp_path / 'tiny.npz', w=np.array([[1, -2], [3, 4]], np.int8), b=np.ones(3), **{'scale of w': scale})
    state = CheckpointLoader.load_checkpoint('rebnn://tiny', map_location='cpu', logger='silent')['state_dict']
    assert set(state) == {'w', 'b'} and state['w'].tolist() == [[0.5, -1], [6, 8]]
    for name, fix in (('tin', "Did you mean 'tiny'?"), ('large', 'There is tiny.')):
        message = refusal(CheckpointLoader.load_checkpoint, f'rebnn://{name}', logger='silent')
        assert message == f'rebnn://{name}: the package has no start {name!r}. {fix}'
