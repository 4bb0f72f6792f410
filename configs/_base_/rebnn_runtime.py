_base_ = 'mmdet::_base_/default_runtime.py'

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
custom_hooks = [dict(type='ReBNNHook')]
