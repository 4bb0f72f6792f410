_base_ = '../voc/ssd300_vgg16_bidet_voc.py'

# BiDet's SSD300 for its checkpoint: 66.0 mAP (BiDet's number, from its repository). Structure, anchors, mean and
# thresholds are those of the released code, in which no box is clipped. There each class has its 200 best candidates
# suppressed; here all are, and 4000 boxes are what 20 classes have there at most.
model = dict(
    data_preprocessor=dict(mean=[123.0, 117.0, 104.0]),
    backbone=dict(widen='pool', init_cfg=None),
    bbox_head=dict(
        anchor_generator=dict(type='ClampedSSDAnchorGenerator'),
        bbox_coder=dict(clip_border=False),
    ),
    test_cfg=dict(nms_pre=120000, score_thr=0.01, max_per_img=4000),
)
