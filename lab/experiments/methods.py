# Every method of the paper's tables, and others since 2020, in the same network, block and schedule.
_base_ = './_base_/cifar10_cpu.py'

title = 'Every method on CIFAR-10'
paper = 'ImageNet, ResNet-18'
folder = 'configs/cifar10/cpu'
runs = [
    dict(name='real', label='full-precision counterpart', config=f'{folder}/resnet20_real.py', paper=69.6),
    dict(name='bnn', label='BNN', config=f'METHOD=bnn {folder}/resnet20.py', paper=42.2),
    dict(name='xnor', label='XNOR-Net', config=f'METHOD=xnor {folder}/resnet20.py', paper=51.2),
    dict(name='dorefa_w1a1', label='DoReFa-Net 1-1', config=f'METHOD=dorefa_w1a1 {folder}/resnet20.py'),
    dict(name='dorefa_w4a4', label='DoReFa-Net 4-4', config=f'METHOD=dorefa_w4a4 {folder}/resnet20.py'),
    dict(name='rbnn', label='RBNN', config=f'METHOD=rbnn {folder}/resnet20.py', paper=59.6),
    dict(name='recu', label='ReCU', config=f'METHOD=recu {folder}/resnet20.py', paper=61.0),
    # In ReActNet's block Bi-Real Net and ReActNet are one network.
    dict(name='react', label='ReActNet, Bi-Real Net', config=f'METHOD=react {folder}/resnet20.py', paper=65.9),
    dict(name='fda', label='FDA-BNN', config=f'METHOD=fda {folder}/resnet20.py', paper=65.8),
    dict(name='bidet', label='BiDet, convolution', config=f'METHOD=bidet {folder}/resnet20.py'),
    dict(name='irnet', label='IR-Net', config=f'METHOD=irnet {folder}/resnet20.py'),
    dict(name='siman', label='SiMaN', config=f'METHOD=siman {folder}/resnet20.py'),
    dict(name='adabin', label='AdaBin', config=f'METHOD=adabin {folder}/resnet20.py'),
    dict(name='reste', label='ReSTE', config=f'METHOD=reste {folder}/resnet20.py'),
    dict(name='biper', label='BiPer, one stage', config=f'METHOD=biper {folder}/resnet20.py'),
    dict(name='ovsw', label='OvSW', config=f'METHOD=ovsw {folder}/resnet20.py'),
    dict(name='rebnn', label='ReBNN', config=f'METHOD=rebnn {folder}/resnet20.py', paper=61.6),
]
del folder
