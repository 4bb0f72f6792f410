_base_ = [
    '../_base_/models/reactnet_a_imagenet_taught.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/react.py',
]

# Stage 1 of two: real weights, binary inputs (W32A1). The released recipe: Adam 5e-4 at batch 256, linearly to 0 over
# 256 epochs, weight decay 1e-5 in this stage only. Its colour jitter does next to nothing and is left out.
model = dict(backbone=dict(conv_cfg=dict(_base_.binary, weight=None)))
train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(lr=5e-4, weight_decay=1e-5))
auto_scale_lr = dict(base_batch_size=256)
