_base_ = './tiny_bccd.py'

# The tiny 1-bit detector on DeepPCB: black and white images of printed circuit boards, 640x640, with six kinds of
# defects. It starts from the 1-bit detector of photographs, and without a teacher: one of
# five epochs held it back.
load_from = 'rebnn://one_bit_tiny_photos_1bit'
data_root = 'data/deeppcb/'
metainfo = dict(classes=('open', 'short', 'mousebite', 'spur', 'copper', 'pin-hole'))
scale = (320, 320)
max_epochs = 24
held_out, tested = 'annotations/instances_val.json', 'annotations/instances_test.json'

train_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='Resize', scale=scale, keep_ratio=True),
    # A board has no upright.
    dict(type='RandomFlip', prob=[0.25, 0.25, 0.25], direction=['horizontal', 'vertical', 'diagonal']),
    dict(type='PackDetInputs'),
]
test_pipeline = [
    dict(type='LoadImageFromFile'),
    dict(type='Resize', scale=scale, keep_ratio=True),
    dict(type='LoadAnnotations', with_bbox=True),
    dict(type='PackDetInputs', meta_keys=('img_id', 'img_path', 'ori_shape', 'img_shape', 'scale_factor')),
]
images = dict(data_root=data_root, metainfo=metainfo)
train_dataloader = dict(dataset=dict(pipeline=train_pipeline, **images))
val_dataloader = dict(dataset=dict(ann_file=held_out, pipeline=test_pipeline, **images))
test_dataloader = dict(dataset=dict(ann_file=tested, pipeline=test_pipeline, **images))
val_evaluator = dict(ann_file=data_root + held_out)
test_evaluator = dict(ann_file=data_root + tested)
model = dict(bbox_head=dict(num_classes=6))
train_cfg = dict(max_epochs=max_epochs, val_interval=4)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=50),
    dict(type='LinearLR', start_factor=1, end_factor=0, by_epoch=True, end=max_epochs, convert_to_iter_based=True),
]
default_hooks = dict(checkpoint=dict(interval=4))
