# The paper's optimizer for SSD: SGD 0.008 at batch 16. What it does not say is BiDet's: no weight decay, and steps
# after the same number of images, so twice the iterations at half the batch. Use it with
# train_dataloader.batch_size=16.
_base_ = './ssd_adam.py'

# The clipping is ours, at the norm that IDa-Det, the same group's detector, clips at. Without it the loss of an SSD of
# a sixteenth of the width, on two images of noise, swung between 22 and 56 for 60 steps; with it, it fell to 17.
optim_wrapper = dict(
    optimizer=dict(_delete_=True, type='SGD', lr=0.008, momentum=0.9), clip_grad=dict(max_norm=35, norm_type=2)
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.001, by_epoch=False, begin=0, end=500),
    dict(type='MultiStepLR', by_epoch=False, milestones=[80000, 160000, 400000], gamma=0.1),
]
train_cfg = dict(max_iters=800000)
auto_scale_lr = dict(base_batch_size=16)
