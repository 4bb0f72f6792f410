# A 1-bit detector of photographs as a start: six classes of VOC 2012 at 224x224, distilled from the package's
# full-precision detector, with which it begins.
_base_ = './one_bit_voc6_224.py'

title = 'A 1-bit start, six classes of VOC at 224x224 (unit: 6 epochs)'
runs = [
    dict(
        name='tiny_from_detector',
        label="tiny, 1 bit, started and distilled by the package's detector (2)",
        config='configs/one_bit/tiny_taught_voc6.py',
        options={
            'optim_wrapper.type': 'Bfloat16OptimWrapper',
            'model.teacher_checkpoint': 'rebnn://one_bit_tiny_photos',
        },
        budget={'train_cfg.max_epochs': 12, 'param_scheduler.1.end': 12},
    )
]
