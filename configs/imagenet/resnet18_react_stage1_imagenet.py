_base_ = [
    '../_base_/models/resnet18_imagenet_taught.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/react.py',
]

# Stage 1 of two: real weights, binary inputs (W32A1). Every two-stage config starts from its last checkpoint.
# The paper has no weight decay in either stage. ReActNet's released first stage has 1e-5, which is one option away:
# --cfg-options optim_wrapper.optimizer.weight_decay=1e-5
model = dict(backbone=dict(conv_cfg=dict(_base_.binary, weight=None)))
