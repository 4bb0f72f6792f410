# For every method; the method's own hook comes from its config.
_base_ = 'mmdet::_base_/default_runtime.py'

custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
