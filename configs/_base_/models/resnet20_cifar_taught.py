# The student of two-stage training on CIFAR-10: ReActNet's blocks, and the original full-precision ResNet-20 as
# teacher in both stages. Its published weights (91.73 %, that project's number) become the teacher's file by
#   python -m lab.tools.import_released plain-resnet20 resnet20-12fca82f.th work_dirs/resnet20_plain.pth
_base_ = './resnet20_cifar.py'

model = dict(
    type='rebnn_mm.TeacherStudentClassifier',
    backbone=dict(block='react'),
    teacher=dict(
        type='ImageClassifier',
        backbone=dict(
            type='BinaryResNet',
            depth=20,
            block='plain_cifar',
            stem='cifar',
            stem_act=dict(type='ReLU'),
            base_channels=16,
            num_stages=3,
            strides=(1, 2, 2),
            dilations=(1, 1, 1),
            out_indices=(2,),
            conv_cfg=None,
        ),
        neck=dict(type='GlobalAveragePooling'),
        head=dict(type='LinearClsHead', num_classes=10, in_channels=64, loss=dict(type='CrossEntropyLoss')),
    ),
    teacher_checkpoint='work_dirs/resnet20_plain.pth',
    teacher_loss=dict(type='DistributionLoss'),
)
