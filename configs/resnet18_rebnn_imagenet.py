_base_ = [
    'mmpretrain::_base_/models/resnet18.py',
    'mmpretrain::_base_/datasets/imagenet_bs64.py',
    'mmpretrain::_base_/schedules/imagenet_bs256_coslr.py',
    'mmpretrain::_base_/default_runtime.py',
]
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
custom_hooks = [dict(type='ReBNNHook')]

# The paper's ImageNet table, one-stage ReBNN ResNet-18: top-1 61.6, top-5 83.4 (the paper's numbers).
binary = dict(type='ReBNNConv2d', gamma='adaptive', gamma_bounds=(1e-5, 2e-4))
model = dict(
    backbone=dict(_delete_=True, type='ReBNNResNet', depth=18, block='bireal', out_indices=(3,), conv_cfg=binary)
)

# SGD 0.1 with a cosine over 200 epochs is the paper's; it names no batch size, so mmpretrain's 256 stays.
optim_wrapper = dict(constructor='ReBNNOptimWrapperConstructor')
param_scheduler = dict(T_max=200, end=200)
train_cfg = dict(max_epochs=200)
