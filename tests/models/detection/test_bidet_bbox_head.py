import pytest
import torch
from mmengine.registry import DefaultScope

from tests.tolerances import FLOAT32_ROUNDING

pytest.importorskip('mmdet')

from rebnn_mm.models.detection import BiDetBBoxHead


def build(**options):
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope('mmdet'):
        return BiDetBBoxHead(in_channels=8, roi_feat_size=4, num_classes=3, with_avg_pool=True, **options)


@pytest.mark.parametrize(('agnostic', 'deltas'), [(True, 4), (False, 12)])
def test_twice_the_outputs_and_the_mean_in_evaluation(agnostic, deltas):
    head = build(reg_class_agnostic=agnostic, sample_sigma=0.1)
    assert head.fc_reg.out_features == 2 * deltas
    x = torch.randn(5, 8, 4, 4)
    assert (head(x)[1] != head(x)[1]).all()
    score, box = head.eval()(x)
    assert score.shape == (5, 4) and box.shape == (5, deltas)
    means = head.fc_reg(x.mean(dim=(2, 3)))[:, :deltas]
    torch.testing.assert_close(box, means, atol=FLOAT32_ROUNDING, rtol=0)
    assert torch.equal(box, head(x)[1])


def test_initialisation_is_that_of_mmdet_for_both_halves():
    head = build(reg_class_agnostic=False)
    head.init_weights()
    means, log_variances = head.fc_reg.weight.chunk(2)
    assert means.std().item() == pytest.approx(0.001, rel=0.3)
    assert log_variances.std().item() == pytest.approx(0.001, rel=0.3)


def test_no_regions_give_no_boxes():
    score, box = build(reg_class_agnostic=True)(torch.zeros(0, 8, 4, 4))
    assert score.shape == (0, 4) and box.shape == (0, 4)
