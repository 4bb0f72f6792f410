# Blood cells, from scratch, sized for two CPU cores.
_base_ = './faster_rcnn_r18_c4.py'

model = dict(
    backbone=dict(frozen_stages=-1, norm_eval=False, init_cfg=None),
    # Cells at 320x240: platelets about 20 pixels wide, red cells 50, white cells 95; all nearly round.
    rpn_head=dict(
        feat_channels=256,
        anchor_generator=dict(scales=[1.25, 2.0, 3.2, 6.0], ratios=[0.8, 1.25]),
    ),
    roi_head=dict(shared_head=dict(norm_eval=False, init_cfg=None), bbox_head=dict(num_classes=3)),
    train_cfg=dict(
        rpn_proposal=dict(nms_pre=600, max_per_img=200),
        # Regions cost more than the image does: stage 4 runs on every one of them.
        rcnn=dict(sampler=dict(num=32, pos_fraction=0.5)),
    ),
    test_cfg=dict(rpn=dict(nms_pre=600, max_per_img=100)),
)
