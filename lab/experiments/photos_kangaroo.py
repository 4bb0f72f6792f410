# What rebnn new-config --teacher writes for the photographs of data/kangaroo: training images of other sizes, cuts and
# colours, and a teacher that starts from a detector of other photographs at a fifth of the rate, or from a classifier.
# The student starts from such a teacher, or from a 1-bit detector of those photographs, with this teacher or alone.
# The twin is the teacher trained for as long as teacher and student together. A teacher that starts from a detector
# has most of its AP early, so one more pair gives it a quarter of all epochs instead of half.
_base_ = './one_bit_kangaroo.py'

title = 'Starts that detect, kangaroos (unit: 48 epochs)'
seeds = [0, 1, 2]
bfloat16 = {'optim_wrapper.type': 'Bfloat16OptimWrapper'}
detector = {'load_from': 'rebnn://one_bit_tiny_photos', 'optim_wrapper.optimizer.lr': 2e-4}
classifier = {
    'model.backbone.init_cfg': dict(type='Pretrained', checkpoint='rebnn://one_bit_tiny', prefix='backbone.')
}
options = dict(
    _delete_=True,
    **{key: value for key, value in _base_.options.items() if '.pipeline.' not in key},
    **{
        'train_dataloader.dataset.pipeline': [
            dict(type='LoadImageFromFile'),
            dict(type='LoadAnnotations', with_bbox=True),
            dict(type='RandomResize', scale=(320, 240), ratio_range=(0.5, 2.0), keep_ratio=True),
            dict(type='RandomCrop', crop_size=(320, 320), allow_negative_crop=True),
            dict(type='FilterAnnotations', min_gt_bbox_wh=(1, 1), keep_empty=False),
            dict(type='RandomFlip', prob=0.5),
            dict(type='PhotoMetricDistortion'),
            dict(type='PackDetInputs'),
        ]
    },
)
runs = []
for name, label, begun in (('detector', 'a detector', detector), ('classifier', 'a classifier', classifier)):
    teacher = dict(config='configs/one_bit/tiny_teacher_bccd.py', options={**bfloat16, **begun})
    runs += [
        dict(name=f'{name}_teacher', label=f'full-precision, from {label}, the teacher (1)', **teacher),
        dict(
            name=f'{name}_taught',
            label=f'1 bit, started and distilled from the teacher from {label} (1 + 1)',
            config='configs/one_bit/tiny_taught_bccd.py',
            options=bfloat16,
            teacher=f'{name}_teacher',
        ),
        dict(
            name=f'{name}_begun',
            label='1 bit, from the 1-bit detector, distilled from the teacher from a detector (1 + 1)',
            config='configs/one_bit/tiny_taught_bccd.py',
            options={**bfloat16, **detector, 'load_from': 'rebnn://one_bit_tiny_photos_1bit'},
            teacher=f'{name}_teacher',
        ),
        dict(
            name=f'{name}_alone',
            label='1 bit, from the 1-bit detector, without a teacher (1)',
            config='configs/one_bit/tiny_bccd.py',
            options={**bfloat16, **detector, 'load_from': 'rebnn://one_bit_tiny_photos_1bit'},
        ),
        dict(
            name=f'{name}_alone_long',
            label='1 bit, from the 1-bit detector, without a teacher (2)',
            config='configs/one_bit/tiny_bccd.py',
            options={**bfloat16, **detector, 'load_from': 'rebnn://one_bit_tiny_photos_1bit'},
            budget={'train_cfg.max_epochs': 96, 'param_scheduler.1.end': 96},
        ),
        dict(
            name=f'{name}_teacher_short',
            label=f'full-precision, from {label}, the teacher (0.5)',
            budget={'train_cfg.max_epochs': 24, 'param_scheduler.1.end': 24},
            **teacher,
        ),
        dict(
            name=f'{name}_taught_long',
            label=f'1 bit, started and distilled from the teacher from {label} (0.5 + 1.5)',
            config='configs/one_bit/tiny_taught_bccd.py',
            options=bfloat16,
            budget={'train_cfg.max_epochs': 72, 'param_scheduler.1.end': 72},
            teacher=f'{name}_teacher_short',
        ),
        dict(
            name=f'{name}_twin',
            label=f'full-precision, from {label} (2)',
            budget={'train_cfg.max_epochs': 96, 'param_scheduler.1.end': 96},
            **teacher,
        ),
    ]
runs = [run for run in runs if run['name'] not in ('classifier_begun', 'classifier_alone', 'classifier_alone_long')]
del bfloat16, detector, classifier, name, label, begun, teacher
