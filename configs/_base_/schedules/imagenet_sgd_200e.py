# One stage: SGD 0.1, momentum 0.9, weight decay 1e-4, a cosine over 200 epochs (the paper's numbers).
# The paper names no batch size; 512 is that of ReCU, whose setting it follows.
_base_ = 'mmpretrain::_base_/schedules/imagenet_bs256_coslr.py'

# The recipe moves signs as it is.
optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor',
    paramwise_cfg=dict(roles=dict(latent_weight=dict(relative=False))),
)
param_scheduler = dict(T_max=200, end=200)
train_cfg = dict(max_epochs=200)
auto_scale_lr = dict(base_batch_size=512)
