# A pass over the 10,000 images has 79 steps.
_base_ = 'mmpretrain::_base_/default_runtime.py'

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
default_hooks = dict(logger=dict(interval=40), checkpoint=dict(interval=10))
