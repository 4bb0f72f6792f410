# BiDet's Faster R-CNN, the structure of the paper's table: stages 1 to 3 see the image, stage 4 sees every region.
# Objectness is mmdet's sigmoid where BiDet has a two-way softmax.
_base_ = 'mmdet::_base_/models/faster-rcnn_r50-caffe-c4.py'

norm_cfg = dict(type='BN', requires_grad=True)
pretrained = dict(type='Pretrained', checkpoint='torchvision://resnet18')
model = dict(
    data_preprocessor=dict(mean=[123.675, 116.28, 103.53], std=[58.395, 57.12, 57.375], bgr_to_rgb=True),
    backbone=dict(depth=18, frozen_stages=0, norm_cfg=norm_cfg, style='pytorch', init_cfg=pretrained),
    rpn_head=dict(
        in_channels=256,
        feat_channels=512,
        anchor_generator=dict(scales=[4, 8, 16, 32]),
        loss_bbox=dict(_delete_=True, type='SmoothL1Loss', beta=1 / 9),
    ),
    roi_head=dict(
        shared_head=dict(depth=18, norm_cfg=norm_cfg, style='pytorch', init_cfg=pretrained),
        # Stage 4 halves the 7x7 regions to 4x4.
        bbox_roi_extractor=dict(roi_layer=dict(output_size=7), out_channels=256),
        bbox_head=dict(
            in_channels=512,
            roi_feat_size=4,
            reg_class_agnostic=True,
            loss_bbox=dict(_delete_=True, type='SmoothL1Loss', beta=1.0),
        ),
    ),
    train_cfg=dict(rcnn=dict(sampler=dict(num=256))),
    test_cfg=dict(rpn=dict(max_per_img=300), rcnn=dict(nms=dict(iou_threshold=0.3))),
)
