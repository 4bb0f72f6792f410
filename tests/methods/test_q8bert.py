import pytest
import torch

from rebnn_mm.methods import Q8BERTActivation, Q8BERTWeight


def test_weight_by_hand():
    w = torch.tensor([[0.4, -0.6, 1.0], [0.1, 0.2, -0.3]], requires_grad=True)
    w_hat = Q8BERTWeight((2, 3), bits=2)(w)
    w_hat.sum().backward()
    assert w_hat.tolist() == [[0, -1, 1], [0, 0, 0]] and torch.equal(w.grad, torch.ones(2, 3))
    by_channel = Q8BERTWeight((2, 3), bits=2, per='channel')(w.detach())
    torch.testing.assert_close(by_channel[1], torch.tensor([0.0, 0.3, -0.3]))


def test_range_follows_training_and_is_fixed_in_evaluation():
    quantizer = Q8BERTActivation(2, decay=0.75)
    quantizer(torch.tensor([4.0, -1.0]))
    assert quantizer.range == 4
    quantizer(torch.tensor([1.0, -8.0]))
    assert quantizer.range == 5
    quantizer.eval()
    out = quantizer(torch.tensor([100.0, 5 / 127 * 3.4]))
    torch.testing.assert_close(out, torch.tensor([5.0, 5 / 127 * 3]))
    assert quantizer.range == 5
    loaded = Q8BERTActivation(2, decay=0.75)
    loaded.load_state_dict(quantizer.state_dict())
    assert loaded.range == 5


def test_nothing_waits_for_the_accelerator():
    """A meta tensor has no value, so whatever asks for one fails."""
    quantizer = Q8BERTActivation(2).to('meta')
    for training in (True, False):
        x = torch.zeros(3, 2, device='meta', requires_grad=True)
        quantizer.train(training)(x).sum().backward()
        assert x.grad.shape == x.shape


def test_evaluation_before_training_takes_the_inputs_maximum():
    quantizer = Q8BERTActivation(2, bits=2).eval()
    assert quantizer(torch.tensor([3.0, -1.0])).tolist() == [3, 0] and quantizer.range == 0


def test_gradient_passes_unchanged():
    x = torch.tensor([0.3, -9.0, 2.0], requires_grad=True)
    quantizer = Q8BERTActivation(3)
    quantizer.range.fill_(1.0)
    quantizer.eval()(x).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize('bits', [1, 9, 2.0])
def test_bits_out_of_range_are_refused(bits):
    with pytest.raises(ValueError, match='must be a whole number from 2 to 8'):
        Q8BERTWeight((2, 3), bits=bits)
    with pytest.raises(ValueError, match='must be a whole number from 2 to 8'):
        Q8BERTActivation(3, bits=bits)


def test_decay_out_of_range_is_refused():
    with pytest.raises(ValueError, match='decay=1 must be at least 0 and below 1'):
        Q8BERTActivation(3, decay=1)


def test_an_empty_input_changes_nothing():
    quantizer = Q8BERTActivation(8)
    quantizer(torch.full((1, 8), 2.0))
    assert quantizer(torch.zeros(0, 8)).shape == (0, 8) and quantizer.range == 2
