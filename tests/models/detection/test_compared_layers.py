"""Binary layers of a student compared with the real ones of its teacher: products, and what pulls at them."""

import pytest
import torch
from torch import nn

pytest.importorskip('mmdet')


from rebnn_mm.methods import (
    BiDetConv2d,
    BiRealConv2d,
    BNextConv2d,
    BNNConv2d,
    FDAConv2d,
    ReBNNConv2d,
    ReBNNLinear,
    ReSTEConv2d,
)
from rebnn_mm.models.detection.teacher_student_detector import product_of, watch_layers
from rebnn_mm.models.losses.layerwise_loss import amplitude_distance, angle_distance
from rebnn_mm.models.teacher import Call

from .taught_samples import (
    BINARY,
    LAYERWISE,
    built,
    c4,
    losses_of,
    taught,
)

# Some tests look at a loss only and never step.
pytestmark = pytest.mark.filterwarnings('ignore:.*trained without the resilient gradient')


def test_layers_are_compared_with_those_of_the_teacher(build):
    """Against both products written out, for the first layer; its input is that of the plain network."""
    model = build(losses=LAYERWISE, start_from_teacher=True)
    names = [name for name in model._list_compared_layers() if name.startswith('backbone')]
    assert names == [f'backbone.layer2.{block}.conv{conv}' for block in (0, 1) for conv in (1, 2)]
    assert len(model._list_compared_layers()) == 8
    ours, theirs = model.backbone.layer2[0].conv1, model.teacher.backbone.layer2[0].conv1
    with watch_layers(model, names) as calls, watch_layers(model.teacher, names) as passes:
        losses = losses_of(model)
    signs, weight = calls[names[0]][0].arguments[0].detach().sign(), ours.weight.detach().sign()
    found = product_of(ours, calls[names[0]][0])
    sums = nn.functional.conv2d(signs, weight, stride=2, padding=1)
    torch.testing.assert_close(found.values.detach(), sums, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(found.size, torch.full((2,), float(signs[0].numel() * weight.numel()) ** 0.5))
    torch.testing.assert_close(found.factor, ours.weight_quantizer.alpha.flatten())
    real = product_of(theirs, passes[names[0]][0])
    x = passes[names[0]][0].arguments[0]
    torch.testing.assert_close(real.values, nn.functional.conv2d(x, theirs.weight, stride=2, padding=1))
    torch.testing.assert_close(real.size[1], x[1].norm() * theirs.weight.norm())
    assert real.factor is None and not real.values.requires_grad
    assert losses['loss_angle'] > 0 and losses['loss_amplitude'] > 0


def products(kind):
    """A binary layer, a real one of other weights, and what both made of the same images, as :class:`Product`."""
    torch.manual_seed(0)
    layer, real = kind(4, 6, 3, bias=False, activation='BinarySign').double(), nn.Conv2d(4, 6, 3, bias=False).double()
    layer.weight.data = 0.1 * torch.randn(6, 4, 3, 3, dtype=torch.float64)
    images = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    return layer, [product_of(each, Call((images,), each(images))) for each in (layer, real)]


def test_the_angle_pulls_alike_whatever_factor_a_method_computes():
    found = []
    for kind in (BNNConv2d, BiDetConv2d, ReSTEConv2d, ReBNNConv2d):
        layer, pair = products(kind)
        loss = angle_distance(*pair)
        found.append((loss.detach(), *torch.autograd.grad(loss, layer.weight)))
    for loss, gradient in found[1:]:
        torch.testing.assert_close(loss, found[0][0])
        torch.testing.assert_close(gradient, found[0][1], rtol=1e-5, atol=1e-8)


@pytest.mark.filterwarnings('ignore::rebnn_mm.quantizers.base.MissingHookWarning')
@pytest.mark.parametrize('kind', [BNextConv2d, FDAConv2d])
def test_the_norm_is_that_of_the_weights_of_training(kind):
    torch.manual_seed(0)
    layer, images = kind(4, 6, 3, bias=False, activation=None), torch.randn(2, 4, 5, 5)
    used = layer.weight_quantizer(layer.weight).detach()
    assert len(used.unique()) > 12
    # The layer computes what a real one of these weights does, but for a factor of each channel.
    _, factor = layer.weight_quantizer.codes(layer.weight)
    real = nn.Conv2d(4, 6, 3, bias=False)
    real.weight.data = used if factor is None else used / factor.view(-1, 1, 1, 1)
    pair = [product_of(each, Call((images,), each(images))) for each in (layer, real)]
    assert angle_distance(*pair).item() == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize('kind', [nn.Conv2d, ReBNNConv2d])
def test_a_bias_is_no_part_of_the_product(kind):
    layer, images = kind(4, 6, 3, bias=True).double(), torch.randn(2, 4, 5, 5, dtype=torch.float64)
    found = []
    for bias in (0.0, 7.0):
        nn.init.constant_(layer.bias, bias)
        found.append(product_of(layer, Call((images,), layer(images))).values)
    torch.testing.assert_close(*found)


@pytest.mark.parametrize('kind', [BNNConv2d, BiRealConv2d, BiDetConv2d, ReSTEConv2d])
def test_the_amplitude_leaves_factors_alone_that_are_computed(kind):
    layer, pair = products(kind)
    gradients = torch.autograd.grad(amplitude_distance(*pair), layer.weight, allow_unused=True)
    assert gradients[0] is None or not gradients[0].any()


def test_layers_learn_from_those_of_the_teacher_in_the_form_that_keeps_sums(build):
    model = build(losses=LAYERWISE, student=c4(dict(BINARY, memory='sums')))
    losses = losses_of(model)
    (losses['loss_angle'] + losses['loss_amplitude']).backward()
    for name in model._list_compared_layers():
        layer = model.get_submodule(name)
        assert layer.weight.grad.any() and layer.weight_quantizer.alpha.grad.any()
    # The last layer has no later one, and what is after it gets nothing.
    assert model.roi_head.bbox_head.fc_cls.weight.grad is None
    assert not any(module._forward_hooks for module in model.modules())


def test_angles_pull_at_no_learned_factor(build):
    model = build(losses=LAYERWISE)
    losses_of(model)['loss_angle'].backward()
    for name in model._list_compared_layers():
        layer = model.get_submodule(name)
        assert layer.weight.grad.any()
        later = [other for other in model._list_compared_layers() if other.split('.')[0] == name.split('.')[0]][-1]
        if name == later:
            alpha = layer.weight_quantizer.alpha
            size = (layer.weight.grad * layer.weight).abs().sum()
            assert alpha.grad.abs().max() * alpha.max() < 1e-5 * size


def test_a_linear_layer_cannot_be_compared(teacher_file):
    model = built(taught(teacher_file, losses=LAYERWISE))
    model.roi_head.bbox_head.fc_cls = ReBNNLinear(16, 4)
    with pytest.raises(
        ValueError, match=r'layer roi_head\.bbox_head\.fc_cls is compared, and is a ReBNNLinear, where'
    ):
        model.prepare_teacher()


def test_layers_of_a_compiled_part_cannot_be_compared(build):
    model = build(losses=LAYERWISE)
    model.backbone.compile(backend='eager')
    with pytest.raises(ValueError, match=r'backbone\.layer2\.0\.conv1 is compared, and cannot be seen in backbone'):
        losses_of(model)
