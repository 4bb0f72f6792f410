# Every method of the paper's tables, and others since 2020, in the same network, block and schedule.
_base_ = './_base_/cifar10_cpu.py'

title = 'Every method on CIFAR-10'
paper = 'ImageNet, ResNet-18'
folder = 'configs/cifar10/cpu'
runs = [
    dict(name='real', label='real-valued twin', config=f'{folder}/resnet20_cifar10_cpu.py', paper=69.6),
    dict(name='bnn', label='BNN', config=f'{folder}/resnet20_bnn_cifar10_cpu.py', paper=42.2),
    dict(name='xnor', label='XNOR-Net', config=f'{folder}/resnet20_xnor_cifar10_cpu.py', paper=51.2),
    dict(name='dorefa_w1a1', label='DoReFa-Net 1-1', config=f'{folder}/resnet20_dorefa_w1a1_cifar10_cpu.py'),
    dict(name='dorefa_w4a4', label='DoReFa-Net 4-4', config=f'{folder}/resnet20_dorefa_w4a4_cifar10_cpu.py'),
    dict(name='rbnn', label='RBNN', config=f'{folder}/resnet20_rbnn_cifar10_cpu.py', paper=59.6),
    dict(name='recu', label='ReCU', config=f'{folder}/resnet20_recu_cifar10_cpu.py', paper=61.0),
    # In ReActNet's block Bi-Real Net and ReActNet are one network.
    dict(name='react', label='ReActNet, Bi-Real Net', config=f'{folder}/resnet20_react_cifar10_cpu.py', paper=65.9),
    dict(name='fda', label='FDA-BNN', config=f'{folder}/resnet20_fda_cifar10_cpu.py', paper=65.8),
    dict(name='bidet', label='BiDet, convolution', config=f'{folder}/resnet20_bidet_cifar10_cpu.py'),
    dict(name='irnet', label='IR-Net', config=f'{folder}/resnet20_irnet_cifar10_cpu.py'),
    dict(name='siman', label='SiMaN', config=f'{folder}/resnet20_siman_cifar10_cpu.py'),
    dict(name='adabin', label='AdaBin', config=f'{folder}/resnet20_adabin_cifar10_cpu.py'),
    dict(name='reste', label='ReSTE', config=f'{folder}/resnet20_reste_cifar10_cpu.py'),
    dict(name='biper', label='BiPer, one stage', config=f'{folder}/resnet20_biper_cifar10_cpu.py'),
    dict(name='ovsw', label='OvSW', config=f'{folder}/resnet20_ovsw_cifar10_cpu.py'),
    dict(name='rebnn', label='ReBNN', config=f'{folder}/resnet20_rebnn_cifar10_cpu.py', paper=61.6),
]
del folder
