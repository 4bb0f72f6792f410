# Blood cells with a one-stage detector: what shortcuts in the towers of its head are worth to one bit.
_base_ = './signs_bccd.py'

title = 'One stage, blood cells'
seeds = [0, 1]
options = {'optim_wrapper.type': 'Bfloat16OptimWrapper'}
rebnn = 'configs/bccd/retinanet_r18_rebnn_bccd.py'
hooks = [
    dict(type='BinaryWeightRecorderHook', layers=[]),
    dict(type='CompileHook', part='backbone'),
]
runs = [
    dict(name='towers', label='ReBNN, a shortcut per convolution', config=rebnn),
    dict(
        name='towers_stock',
        label="ReBNN, mmdet's towers",
        config=rebnn,
        options={'model.bbox_head.block': 'relu', 'model.bbox_head.shortcut': False},
    ),
    dict(name='towers_real', label='full-precision', config='configs/bccd/retinanet_r18_bccd.py'),
]
del rebnn
