# Every method of the paper's tables, and others since 2020, in ResNet-20 and ResNet-18 on the whole of CIFAR-10, 200
# epochs. For a GPU.
_base_ = './_base_/cifar10_whole.py'

title = 'Every method on the whole of CIFAR-10'
methods = dict(
    bnn='BNN',
    xnor='XNOR-Net',
    dorefa_w1a1='DoReFa-Net 1-1',
    dorefa_w4a4='DoReFa-Net 4-4',
    rbnn='RBNN',
    recu='ReCU',
    react='ReActNet, Bi-Real Net',
    fda='FDA-BNN',
    bidet='BiDet, convolution',
    irnet='IR-Net',
    siman='SiMaN',
    reste='ReSTE',
    biper='BiPer, one stage',
    ovsw='OvSW',
    rebnn='ReBNN',
)
runs = []
for depth in (20, 18):
    network = f'resnet{depth}'
    runs.append(dict(name=network, label=f'ResNet-{depth}, real', config=f'configs/cifar10/{network}_real.py'))
    for method, label in methods.items():
        config = f'METHOD={method} configs/cifar10/{network}.py'
        runs.append(dict(name=f'{network}_{method}', label=f'ResNet-{depth}, {label}', config=config))
del methods, depth, network, method, label, config
