import torch

from rebnn_mm.models import FlattenNeck


def test_keeps_every_value_in_order():
    x = torch.randn(2, 3, 4, 5)
    assert torch.equal(FlattenNeck()(x), x.view(2, 60))


def test_pools_each_channel_and_normalises_the_vector():
    torch.manual_seed(0)
    x = torch.randn(16, 3, 4, 4)
    assert torch.equal(FlattenNeck(pool=True)(x), torch.nn.functional.adaptive_avg_pool2d(x, 1)[:, :, 0, 0])
    neck = FlattenNeck(pool=True, norm_channels=3).train()
    y = neck(x)
    means = x.mean((2, 3))
    expected = (means - means.mean(0)) / (means.var(0, correction=0) + neck.norm.eps).sqrt()
    torch.testing.assert_close(y, expected)


def test_a_tuple_of_maps_gives_a_tuple_of_vectors():
    outs = FlattenNeck(pool=True)((torch.ones(2, 3, 4, 4), torch.ones(2, 5, 2, 2)))
    assert [out.shape for out in outs] == [(2, 3), (2, 5)]
