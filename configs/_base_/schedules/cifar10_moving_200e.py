# For ResNets, with the method. One that takes the signs of latent weights as they are needs ten times the relative
# rate. Where a method normalises them, the gradient grows as they shrink, and the common rate turns 0.2 to 1 % of the
# signs in a step; without that it would turn 0.02 %.
_base_ = ['./cifar10_200e.py', '../methods/{{$METHOD:rebnn}}.py']

if not _base_.get('normalizes'):
    optim_wrapper = dict(paramwise_cfg=dict(roles=dict(latent_weight=dict(relative=True, lr_mult=10))))
