# Blood cells with FCOS: 1-bit backbone and towers next to its full-precision counterpart.
_base_ = './signs_bccd.py'

title = 'FCOS, blood cells'
seeds = [0, 1]
options = {'optim_wrapper.type': 'Bfloat16OptimWrapper'}
hooks = [
    dict(type='BinaryWeightRecorderHook', layers=[]),
    dict(type='CompileHook', part='backbone'),
]
runs = [
    dict(name='fcos', label='ReBNN', config='configs/bccd/fcos_r18_rebnn_bccd.py'),
    dict(name='fcos_real', label='full-precision', config='configs/bccd/fcos_r18_bccd.py'),
]
