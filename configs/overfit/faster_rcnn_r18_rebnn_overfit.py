_base_ = '../coco/faster_rcnn_r18_rebnn_coco.py'

# Eight images of the sample in the repository, trained from scratch and scored on the same eight: AP50 has to come
# near 1, or anchors, targets, losses, gradients or evaluation are wrong somewhere. The eight have few tiny objects.
data_root = 'demo/coco_sample/'
indices = [1, 2, 9, 11, 12, 13, 22, 28]
scale = (256, 256)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='Resize', scale=scale, keep_ratio=True),
    dict(type='PackDetInputs'),
]
# Scores are taken in the original image, so here the boxes are loaded after resizing. Without a file of its own
# (ann_file=None) the evaluator knows just the eight images it is shown, by their 'instances'.
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=scale, keep_ratio=True),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor', 'instances'),
    ),
]
images = dict(
    data_root=data_root,
    ann_file='annotations/instances_train2017.json',
    data_prefix=dict(img='train2017/'),
    indices=indices,
)
train_dataloader = dict(
    batch_size=4,
    num_workers=1,
    sampler=dict(_delete_=True, type='InfiniteSampler', shuffle=True),
    batch_sampler=None,
    dataset=dict(pipeline=train_pipeline, **images),
)
val_dataloader = dict(num_workers=1, dataset=dict(pipeline=test_pipeline, **images))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=None)
test_evaluator = val_evaluator

model = dict(
    backbone=dict(frozen_stages=-1, init_cfg=None),
    rpn_head=dict(anchor_generator=dict(scales=[2, 4, 8, 16])),
    roi_head=dict(shared_head=dict(init_cfg=None)),
    train_cfg=dict(
        rpn_proposal=dict(nms_pre=1000, max_per_img=300), rcnn=dict(sampler=dict(num=32, pos_fraction=0.5))
    ),
    test_cfg=dict(rpn=dict(nms_pre=1000, max_per_img=100)),
)

max_iters = 300
optim_wrapper = dict(
    optimizer=dict(_delete_=True, type='Adam', lr=1e-3),
    paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=1))),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=20),
    dict(type='LinearLR', start_factor=1, end_factor=0, by_epoch=False, begin=20, end=max_iters),
]
train_cfg = dict(_delete_=True, type='IterBasedTrainLoop', max_iters=max_iters, val_interval=100)
default_hooks = dict(
    logger=dict(interval=20), checkpoint=dict(by_epoch=False, interval=max_iters, save_optimizer=False)
)
log_processor = dict(by_epoch=False)
