_base_ = 'mmpretrain::_base_/default_runtime.py'

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
# A checkpoint for each of 256 epochs would fill tens of gigabytes.
default_hooks = dict(checkpoint=dict(max_keep_ckpts=2, save_best='auto'))
