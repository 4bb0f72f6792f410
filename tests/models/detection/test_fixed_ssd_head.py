import pytest
import torch
from mmengine.config import ConfigDict
from mmengine.registry import MODELS, DefaultScope

mmdet = pytest.importorskip('mmdet')

from mmdet.models.dense_heads import SSDHead  # noqa: E402  (needs mmdet)

from rebnn_mm.models.detection import FixedSSDHead  # noqa: E402

OPTIONS = dict(
    num_classes=3,
    in_channels=(8,),
    anchor_generator=dict(
        type='SSDAnchorGenerator', scale_major=False, strides=[8], ratios=[[2]], min_sizes=[16], max_sizes=[32]
    ),
    test_cfg=ConfigDict(
        nms_pre=100, nms=dict(type='nms', iou_threshold=0.45), score_thr=0.0, min_bbox_size=0, max_per_img=10
    ),
)


def predict(head):
    maps = (torch.linspace(-1, 1, 8 * 4 * 4).reshape(1, 8, 4, 4),)
    meta = dict(img_shape=(32, 32), ori_shape=(32, 32), scale_factor=(1.0, 1.0))
    return head.predict_by_feat(*head(maps), batch_img_metas=[meta], rescale=True)[0]


def test_prediction_gives_boxes_where_the_head_of_mmdet_fails():
    with DefaultScope.overwrite_default_scope('mmdet'):
        theirs = SSDHead(**OPTIONS)
        ours = MODELS.build(dict(type='rebnn_mm.FixedSSDHead', **OPTIONS))
    assert type(ours) is FixedSSDHead
    ours.load_state_dict(theirs.state_dict())
    result = predict(ours)
    assert len(result) == 10
    assert (result.bboxes >= 0).all()
    assert (result.bboxes <= 32).all()
    # If this stops failing, mmdet is repaired and this class has no purpose left.
    with pytest.raises(AttributeError, match='loss_cls'):
        predict(theirs)
