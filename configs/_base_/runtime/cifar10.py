_base_ = 'mmpretrain::_base_/default_runtime.py'

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
default_hooks = dict(checkpoint=dict(interval=10, max_keep_ckpts=2))
