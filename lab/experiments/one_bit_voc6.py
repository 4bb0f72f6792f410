# The family on real photographs: six classes of VOC 2012 in data/voc6, whose boxes that VOC calls difficult do not
# count. The teacher of tiny starts from the package's classifier, and for comparison from random weights. Two scores:
# COCO's AP, and AP at an overlap of half as VOC computes it (never "VOC mAP": these are six of its classes).
_base_ = './one_bit_bccd.py'

title = 'Detectors designed for one bit, six classes of VOC (unit: 4 epochs)'
also = ['coco/bbox_mAP_50', 'pascal_voc/AP50']
seeds = [0]
budget = {'train_cfg.max_epochs': 4, 'param_scheduler.1.end': 4}
long = {'train_cfg.max_epochs': 8, 'param_scheduler.1.end': 8}
root, held_out = 'data/voc6/', 'annotations/instances_val.json'
bfloat16 = {'optim_wrapper.type': 'Bfloat16OptimWrapper'}
start = dict(type='Pretrained', checkpoint='rebnn://one_bit_tiny', prefix='backbone.')
options = {
    'train_cfg.val_interval': 4,
    'data_root': root,
    'model.bbox_head.num_classes': 6,
    'train_dataloader.dataset.pipeline': [
        dict(type='LoadImageFromFile'),
        dict(type='LoadAnnotations', with_bbox=True),
        dict(type='RandomResize', scale=(320, 320), ratio_range=(0.5, 2.0), keep_ratio=True),
        dict(type='RandomCrop', crop_size=(320, 320)),
        dict(type='FilterAnnotations', min_gt_bbox_wh=(1, 1)),
        dict(type='RandomFlip', prob=0.5),
        dict(type='PhotoMetricDistortion'),
        dict(type='PackDetInputs'),
    ],
    'val_evaluator.ann_file': root + held_out,
    'test_evaluator': [
        dict(type='CocoMetric', ann_file=root + held_out, metric='bbox'),
        dict(type='VOCMetric', metric='mAP', eval_mode='area'),
    ],
}
for split in ('train', 'val', 'test'):
    options[f'{split}_dataloader.dataset.data_root'] = root
    options[f'{split}_dataloader.dataset.metainfo.classes'] = ('person', 'cat', 'dog', 'cow', 'horse', 'sheep')
for split in ('val', 'test'):
    options[f'{split}_dataloader.dataset.ann_file'] = held_out
    options[f'{split}_dataloader.dataset.pipeline.1.scale'] = (320, 320)
runs = [
    dict(
        name='yolox_nano_long',
        label='YOLOX-nano, fp32, from scratch (2)',
        config='configs/one_bit/rivals/yolox_nano_bccd.py',
        budget=long,
    )
]
for name, size, label, begun in (
    ('tiny', 'tiny', 'tiny', {'model.backbone.init_cfg': start}),
    ('tiny_random', 'tiny', 'tiny from random weights', {}),
    ('nano', 'nano', 'nano from random weights', {}),
):
    teacher = f'configs/one_bit/{size}_teacher_bccd.py'
    runs += [
        dict(
            name=f'{name}_teacher',
            label=f'{label}, full-precision, the teacher (1)',
            config=teacher,
            options={**bfloat16, **begun},
        ),
        dict(
            name=f'{name}_taught',
            label=f'{label}, 1 bit, started and distilled (1 + 1)',
            config=f'configs/one_bit/{size}_taught_bccd.py',
            options=bfloat16,
            teacher=f'{name}_teacher',
        ),
        dict(
            name=f'{name}_twin',
            label=f'{label}, full-precision (2)',
            config=teacher,
            options={**bfloat16, **begun},
            budget=long,
        ),
        dict(
            name=f'{name}_taught_long',
            label=f'{label}, 1 bit, started and distilled (2 + 2)',
            config=f'configs/one_bit/{size}_taught_bccd.py',
            options=bfloat16,
            teacher=f'{name}_twin',
            budget=long,
        ),
    ]
runs += [
    dict(
        name='tiny_further',
        label="tiny, full-precision, from the package's detector at half the rate (3)",
        config='configs/one_bit/tiny_teacher_bccd.py',
        options={**bfloat16, 'load_from': 'rebnn://one_bit_tiny_photos', 'optim_wrapper.optimizer.lr': 5e-4},
        budget={'train_cfg.max_epochs': 12, 'param_scheduler.1.end': 12},
    )
]
del long, root, held_out, bfloat16, start, split, name, size, label, begun, teacher
