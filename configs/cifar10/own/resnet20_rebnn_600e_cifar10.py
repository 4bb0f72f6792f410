_base_ = [
    '../../_base_/models/resnet20_cifar.py',
    '../../_base_/datasets/cifar10_bs256.py',
    '../../_base_/schedules/cifar10_recu_600e.py',
    '../../_base_/runtime/cifar10.py',
    '../../_base_/methods/rebnn.py',
]

# The paper has no CIFAR-10 numbers; its one-stage setting follows ReCU, and so does this. But ReCU normalises latent
# weights; without that it takes ten times the relative rate to turn as many signs.
model = dict(backbone=dict(block='hardtanh', stem_act=dict(type='Clamp'), conv_cfg=_base_.binary))
optim_wrapper = dict(paramwise_cfg=dict(roles=dict(latent_weight=dict(relative=True, lr_mult=10))))
