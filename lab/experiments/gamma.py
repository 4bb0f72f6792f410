# The paper's table on gamma: second stage with a teacher, every setting from the same first stage of its seed.
_base_ = './_base_/cifar10_cpu.py'

title = 'The choice of gamma, two stages'
paper = 'ImageNet, ResNet-18'
folder = 'configs/cifar10/cpu'
stage2 = dict(config=f'METHOD=rebnn {folder}/resnet20_two_stage.py', start='stage1')
gamma = 'model.backbone.conv_cfg.gamma'
runs = [
    dict(name='stage1', label='first stage', config=f'{folder}/resnet20_stage1.py', table=False),
    dict(name='gamma_0', label='0', options={gamma: 0}, paper=65.8, **stage2),
    dict(name='gamma_1e-5', label='1e-5', options={gamma: 1e-5}, paper=66.2, **stage2),
    dict(name='gamma_1e-4', label='1e-4', options={gamma: 1e-4}, paper=66.4, **stage2),
    dict(name='gamma_1e-3', label='1e-3', options={gamma: 1e-3}, paper=66.3, **stage2),
    dict(name='gamma_1e-2', label='1e-2', options={gamma: 1e-2}, paper=65.9, **stage2),
    dict(name='gamma_max', label='max of the gradient alone', options={gamma: 'max'}, paper=66.3, **stage2),
    dict(name='gamma_adaptive', label='Eq. 14', options={gamma: 'adaptive'}, paper=66.9, **stage2),
]
del folder, stage2, gamma
