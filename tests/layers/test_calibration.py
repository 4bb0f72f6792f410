import pytest
import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from rebnn_mm.layers import calibrate_shifts
from rebnn_mm.methods import ReBNNConv2d
from tests import two_processes


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), ReBNNConv2d(8, 8, 3), nn.ReLU(), ReBNNConv2d(8, 8, 3)
    )


def test_front_to_back_in_one_pass():
    model, x = net(), torch.randn(4, 3, 12, 12)
    assert calibrate_shifts(model, lambda: model(x)) == []
    model.train()
    with torch.no_grad():
        first = model[:3](x)
        second = model[3:5](first)
    torch.testing.assert_close(-model[3].activation_quantizer.shift.data, first.mean(dim=(0, 2, 3)))
    torch.testing.assert_close(-model[5].activation_quantizer.shift.data, second.mean(dim=(0, 2, 3)))


def test_mode_running_statistics_and_hooks_are_put_back():
    model = net().eval()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    calibrate_shifts(model, lambda: model(torch.randn(4, 3, 12, 12)))
    assert not any(module.training for module in model.modules())
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_second_call_changes_nothing_and_an_unreached_layer_is_named():
    model = net()
    missed = calibrate_shifts(model, lambda: model[:4](torch.randn(4, 3, 12, 12)))
    assert missed == ['5.activation_quantizer']
    shift = model[3].activation_quantizer.shift.clone()
    calibrate_shifts(model, lambda: model(torch.randn(4, 3, 12, 12) + 5))
    assert torch.equal(model[3].activation_quantizer.shift, shift)


def test_a_failing_forward_leaves_the_model_as_it_was():
    model = net().eval()

    def fail():
        raise KeyError('data')

    with pytest.raises(KeyError, match='data'):
        calibrate_shifts(model, fail)
    assert not any(module.training for module in model.modules())


def test_an_empty_batch_starts_nothing():
    conv = ReBNNConv2d(8, 4, 3, activation=dict(type='BinaryApproxSign', shift='mean'))
    assert calibrate_shifts(conv, lambda: conv(torch.randn(0, 8, 5, 5))) == ['activation_quantizer']
    assert not conv.activation_quantizer.shift.any()


def _worker(rank, folder):
    model = DistributedDataParallel(net())
    x = torch.randn(4, 3, 12, 12, generator=torch.Generator().manual_seed(rank))
    calibrate_shifts(model, lambda: model(x))
    torch.save(model.module.state_dict(), f'{folder}/{rank}.pth')


def test_two_processes_start_with_the_shifts_of_the_first(tmp_path):
    two_processes.run(_worker, str(tmp_path))
    model, x = net(), torch.randn(4, 3, 12, 12, generator=torch.Generator().manual_seed(0))
    calibrate_shifts(model, lambda: model(x))
    for rank in (0, 1):
        found = torch.load(tmp_path / f'{rank}.pth')
        torch.testing.assert_close(found, dict(model.state_dict()))


def test_shifts_that_are_sharded_are_refused(tmp_path):
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group('gloo', init_method=f'file://{tmp_path}/group', rank=0, world_size=1)
    try:
        model = net()
        fully_shard(model, mesh=dist.init_device_mesh('cpu', (1,)))
        with pytest.raises(ValueError, match="'3.activation_quantizer' is sharded. Call it before fully_shard"):
            calibrate_shifts(model, lambda: model(torch.randn(4, 3, 12, 12)))
    finally:
        dist.destroy_process_group()
