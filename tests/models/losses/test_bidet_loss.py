import pytest
import torch
from mmengine.registry import MODELS

from rebnn_mm.functional import object_entropy
from rebnn_mm.models.losses import BiDetLoss


def test_weights_and_names():
    loss = MODELS.build(dict(type='BiDetLoss', regularisation=0.5, prior=0.01))
    scores = torch.tensor([0.9, 0.3, 0.2])
    values = loss([torch.ones(2, 3), torch.full((4,), 3.0)], [(scores, 1), (scores, 3)], prefix='loss_rpn_')
    assert list(values) == ['loss_rpn_information', 'loss_rpn_prior']
    assert values['loss_rpn_information'].item() == pytest.approx(0.5 * (1 + 9) / 2)
    assert values['loss_rpn_prior'].item() == pytest.approx(0.01 * object_entropy(scores, 1).item())


def test_starts_switched_off_and_is_no_part_of_the_state():
    loss = BiDetLoss(0.1, 0.2)
    assert loss.active is False
    loss.active = True
    assert dict(loss.state_dict()) == {} and 'active=True' in repr(loss)
