_base_ = [
    '../_base_/models/resnet18_imagenet_binary.py',
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_adam_256e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/xnor.py',
]

# The paper's ImageNet table, XNOR-Net ResNet-18: top-1 51.2, top-5 73.2 (the paper's numbers).
# The released codes train AlexNet only. Adam 1e-3, batch 256, weight decay 1e-5 and 100 epochs are those of the one
# in PyTorch; the linear decay is ours.
model = dict(backbone=dict(block='preact', conv_cfg=_base_.binary))
train_dataloader = dict(batch_size=64)
optim_wrapper = dict(optimizer=dict(weight_decay=1e-5))
param_scheduler = dict(end=100)
train_cfg = dict(max_epochs=100)
auto_scale_lr = dict(base_batch_size=256)
