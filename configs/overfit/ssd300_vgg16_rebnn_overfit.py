_base_ = '../coco/ssd300_vgg16_rebnn_adam_coco.py'

# Eight images of the sample in the repository, trained from scratch and scored on the same eight: AP50 has to come
# near 1, or anchors, targets, losses, gradients or evaluation are wrong somewhere. A quarter of VGG's width, and no
# augmentation, so that a CPU can do it in minutes.
images = dict(
    data_root='demo/coco_sample/',
    ann_file='annotations/instances_train2017.json',
    data_prefix=dict(img='train2017/'),
    indices=[1, 2, 9, 11, 12, 13, 22, 28],
)
train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='Resize', scale=(300, 300), keep_ratio=False),
    dict(type='PackDetInputs'),
]
# Scores are taken in the original image, so here the boxes are loaded after resizing. Without a file of its own
# (ann_file=None) the evaluator knows just the eight images it is shown, by their 'instances'.
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=(300, 300), keep_ratio=False),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(
        type='PackDetInputs',
        meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor', 'instances'),
    ),
]
train_dataloader = dict(batch_size=4, num_workers=1, dataset=dict(pipeline=train_pipeline, **images))
val_dataloader = dict(num_workers=1, dataset=dict(pipeline=test_pipeline, **images))
test_dataloader = val_dataloader
val_evaluator = dict(ann_file=None)
test_evaluator = val_evaluator

channels = (128, 256, 128, 64, 64, 64)
model = dict(
    backbone=dict(base_channels=16, init_cfg=None),
    neck=dict(in_channels=channels[:2], out_channels=channels),
    bbox_head=dict(in_channels=channels),
)

max_iters = 300
optim_wrapper = dict(optimizer=dict(lr=3e-3))
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=20),
    dict(type='LinearLR', start_factor=1, end_factor=0, by_epoch=False, begin=20, end=max_iters),
]
train_cfg = dict(max_iters=max_iters, val_interval=100)
default_hooks = dict(logger=dict(interval=20), checkpoint=dict(interval=max_iters, save_optimizer=False))
