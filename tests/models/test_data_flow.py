import pytest
import torch
from torch import nn
from torch.nn import functional

from rebnn_mm.models.data_flow import DataFlow


def flow_of(model, image=None):
    image = torch.zeros(1, 3, 8, 8) if image is None else image
    layers = [name for name, module in model.named_modules() if isinstance(module, nn.Conv2d | nn.Linear)]
    return DataFlow(model, layers, lambda model: model(image), [image])


class Block(nn.Module):
    """Stem, then a residual block of two convolutions, as options say."""

    def __init__(self, shortcut=None, around_each=False, act=nn.ReLU):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.conv1, self.conv2 = (nn.Conv2d(4, 4, 3, padding=1) for _ in '12')
        self.norm1, self.norm2 = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
        self.shortcut, self.around_each, self.act = shortcut, around_each, act()
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.act(self.stem(x))
        y = self.norm1(self.conv1(x))
        if self.around_each:
            y = y + x
        z = self.norm2(self.conv2(self.act(y)))
        z += (y if self.around_each else x) if self.shortcut is None else self.shortcut(x)
        return self.head(self.act(z).mean((2, 3)))


def test_ends_of_a_network():
    flow = flow_of(Block())
    names = list(flow.inputs)
    assert [name for name in names if flow.is_first(name)] == ['stem']
    assert [name for name in names if flow.is_output(name)] == ['head']
    assert all(flow.was_called(name) for name in names)


def test_a_shortcut_is_added_to_what_others_make_of_its_input():
    shortcut = nn.Sequential(nn.AvgPool2d(1), nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4))
    flow = flow_of(Block(shortcut))
    assert [name for name in flow.inputs if flow.is_shortcut(name)] == ['shortcut.1']
    assert not any(flow_of(Block()).is_shortcut(name) for name in ('conv1', 'conv2', 'stem'))


def test_which_layers_have_a_shortcut_of_their_own():
    flow = flow_of(Block())
    assert not any(flow.has_shortcut(name) for name in ('conv1', 'conv2'))
    flow = flow_of(Block(around_each=True))
    assert flow.has_shortcut('conv1') and flow.has_shortcut('conv2')


def test_a_shortcut_with_a_convolution_goes_around_one_layer():
    class Unit(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.conv, self.down = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(4, 6, 1)

        def forward(self, x):
            x = self.stem(x).tanh()
            return (self.conv(x) + self.down(x)).tanh()

    flow = flow_of(Unit())
    assert flow.is_shortcut('down') and flow.has_shortcut('conv') and not flow.is_shortcut('stem')


def test_what_stands_behind_a_rectifier():
    for act, expected in ((nn.ReLU, True), (nn.ReLU6, True), (nn.Hardtanh, False), (nn.SiLU, False)):
        flow = flow_of(Block(act=act))
        assert flow.behind_rectifier('conv1') is expected and flow.behind_rectifier('head') is expected
        assert not flow.behind_rectifier('stem')


def test_laterals_of_a_pyramid_are_no_shortcuts():
    class Pyramid(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.down = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, 2, 1)
            self.lateral, self.top, self.out = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 3)

        def forward(self, x):
            low = self.stem(x).relu()
            high = self.top(self.down(low).relu())
            return self.out(self.lateral(low) + nn.functional.interpolate(high, scale_factor=2))

    flow = flow_of(Pyramid())
    assert not flow.is_shortcut('lateral') and not flow.is_output('lateral') and flow.is_output('out')


def test_queries_keys_and_values_are_no_outputs_and_gates_are():
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value, self.out, self.gate = (nn.Linear(8, 8) for _ in range(5))

        def forward(self, x):
            x = x.flatten(2).transpose(1, 2)[..., :3]
            x = nn.functional.pad(x, (0, 5)).tanh()
            scores = (self.query(x) @ self.key(x).mT).softmax(-1)
            x = torch.nn.functional.layer_norm(x + self.out(scores @ self.value(x)), (8,))
            return x * self.gate(x).sigmoid()

    flow = flow_of(Attention())
    assert [name for name in flow.inputs if flow.is_output(name)] == ['gate']
    assert flow.has_shortcut('out') is False


def test_values_of_deformable_attention_are_no_outputs_and_its_offsets_are():
    from mmcv.ops import MultiScaleDeformableAttention

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.head = nn.Conv2d(3, 8, 1), nn.Linear(8, 2)
            self.attention = MultiScaleDeformableAttention(8, 2, num_levels=1, batch_first=True)

        def forward(self, x):
            tokens = self.stem(x).flatten(2).transpose(1, 2).relu()
            more = dict(
                reference_points=torch.rand(1, 64, 1, 2),
                spatial_shapes=torch.tensor([[8, 8]]),
                level_start_index=torch.tensor([0]),
                key_padding_mask=torch.zeros(1, 64, dtype=torch.bool),
            )
            return self.head(self.attention(tokens, **more).relu())

    flow = flow_of(Encoder())
    outputs = [name for name in flow.inputs if flow.is_output(name)]
    assert outputs == ['head', 'attention.sampling_offsets', 'attention.attention_weights']


def test_the_model_is_left_alone():
    model = Block().train()
    model.norm2.eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    flow_of(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.norm1.training and not model.norm2.training
    assert not any(module._forward_hooks for module in model.modules())


def seen_through(change, after):
    """A first layer that sees the image through a function, one that sees an activation, and an output layer."""

    class Changed(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.hidden, self.head = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1)
            self.after, self.act = after, nn.Tanh()

        def forward(self, x):
            return self.head(self.act(self.hidden(self.after(self.stem(change(x))))))

    image = torch.rand(1, 3, 8, 8)
    return DataFlow(Changed(), ['stem', 'hidden', 'head'], lambda model: model(image), [image])


@pytest.mark.parametrize(
    'change',
    [
        lambda x: x.clamp(0, 1),
        torch.abs,
        lambda x: x**2,
        lambda x: torch.where(x > 0.5, x, -x),
        lambda x: functional.grid_sample(x, torch.zeros(1, 8, 8, 2), align_corners=False),
        lambda x: functional.channel_shuffle(x, 3),
        lambda x: torch.fft.fft2(x).abs(),
        lambda x: torch.lerp(x, 1 - x, 0.5).log1p().sqrt(),
        lambda x: x.sigmoid(),
        lambda x: functional.relu(x).exp(),
        lambda x: torch.maximum(x, x.flip(1)).sort(1).values,
        lambda x: x.mul(255).round().to(torch.uint8).float(),
    ],
)
def test_what_no_layer_has_made_is_still_the_image(change):
    flow = seen_through(change, nn.Tanh())
    assert [flow.is_first(name) for name in ('stem', 'hidden', 'head')] == [True, False, False]
    assert [flow.is_output(name) for name in ('stem', 'hidden', 'head')] == [False, False, True]


def test_a_comparison_with_the_image_is_no_image():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.hidden = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1)

        def forward(self, x):
            empty = (x == 0).all(1, keepdim=True)
            return self.hidden(self.stem(x).tanh().masked_fill(empty, 0)).tanh()

    image = torch.rand(1, 3, 8, 8)
    flow = DataFlow(Masked(), ['stem', 'hidden'], lambda model: model(image), [image])
    assert flow.is_first('stem') and not flow.is_first('hidden')


@pytest.mark.parametrize(
    'order',
    [nn.ChannelShuffle(2), nn.PixelShuffle(1), nn.Identity(), lambda x: x.tile(1, 1, 2, 2), lambda x: x.fliplr()],
)
def test_a_new_order_ends_no_path(order):
    class Ordered(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm2d(4)

        def forward(self, x):
            return self.norm(order(x))

    flow = seen_through(lambda x: x, Ordered())
    assert not flow.is_output('stem')
