import pytest
import torch

from rebnn_mm.methods import BNextConv2d, BNextWeight


def test_hand_worked_values_and_gradient():
    w = torch.tensor([-0.3, 0.0, 0.05, 0.2], dtype=torch.float64, requires_grad=True)
    upstream = torch.tensor([2.0, -3.0, 0.25, 1.0], dtype=torch.float64)
    quantizer = BNextWeight((4,)).double()
    quantizer.temperature.fill_(0.1)
    out = quantizer(w)
    (out * upstream).sum().backward()
    torch.testing.assert_close(out, torch.tensor([-1.0, 0.0, 0.5, 1.0], dtype=torch.float64))
    # The identity even where the line is cut off: a weight may come back.
    assert torch.equal(w.grad, upstream)


def test_signs_begin_at_the_153rd_epoch():
    quantizer, w = BNextWeight((1, 4)), torch.tensor([[-2e-7, -1e-8, 0.0, 5e-8]])
    for _ in range(152):
        quantizer.begin_epoch(w)
    assert quantizer(w).tolist()[0][0] == -1.0 and 0 < quantizer(w)[0, 3] < 1
    quantizer.begin_epoch(w)
    assert quantizer(w).tolist() == [[-1.0, -1.0, 1.0, 1.0]]


def test_latent_weights_stay_within_one_and_a_half():
    w = torch.tensor([[0.5, -2.0, 1.6]])
    BNextWeight((1, 3)).constrain(w)
    assert w.tolist() == [[0.5, -1.5, 1.5]]


def test_training_has_the_soft_weight_and_evaluation_the_signs():
    torch.manual_seed(0)
    conv = BNextConv2d(4, 2, 1, bias=False, activation=dict(type='BinaryWideSign', width=1.5))
    conv.weight_quantizer.temperature.fill_(10.0)
    x = torch.randn(2, 4, 3, 3)
    signs = torch.where(x < 0, -1.0, 1.0)
    trained = torch.einsum('nchw,oc->nohw', signs, conv.weight.detach().flatten(1) / 10)
    torch.testing.assert_close(conv(x).detach(), trained)
    evaluated = torch.einsum('nchw,oc->nohw', signs, conv.weight.detach().flatten(1).sign())
    assert torch.equal(conv.eval()(x).detach(), evaluated)


def test_gradient_of_the_input_ends_at_one_and_a_half():
    conv = BNextConv2d(4, 1, 1, bias=False)
    assert conv.activation_quantizer.width == 1.5
    x = torch.tensor([1.4, -1.5, 1.6, -2.0]).view(1, 4, 1, 1).requires_grad_()
    conv.activation_quantizer.shift.data.zero_()
    conv.activation_quantizer(x).sum().backward()
    assert x.grad.flatten().tolist() == [1.0, 1.0, 0.0, 0.0]


def test_decay_of_one_is_refused():
    with pytest.raises(ValueError, match='decay=1 must be between 0 and 1'):
        BNextWeight((1, 2), decay=1)
