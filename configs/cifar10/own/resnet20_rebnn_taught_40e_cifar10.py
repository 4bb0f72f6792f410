# 40 epochs more of resnet20_rebnn_100e_cifar10.py, from its weights, at a rate at which signs settle, with the
# published full-precision ResNet-20 as teacher (docs/cifar10.md). What it has reached: run full_sgd_taught of
# lab/reports/results.md.
_base_ = './resnet20_rebnn_100e_cifar10.py'

model = dict(
    type='rebnn_mm.TeacherStudentClassifier',
    teacher='configs/cifar10/reference/resnet20_plain_cifar10.py',
    teacher_checkpoint='work_dirs/resnet20_plain.pth',
)
load_from = 'work_dirs/resnet20_rebnn_100e_cifar10/epoch_100.pth'
optim_wrapper = dict(optimizer=dict(lr=0.03))
max_epochs = 40
param_scheduler = dict(end=max_epochs)
train_cfg = dict(max_epochs=max_epochs)
