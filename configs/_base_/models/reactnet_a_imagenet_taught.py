# ReActNet-A, distilled from a full-precision ResNet-34 in both stages as in resnet18_imagenet_taught.py. Real are stem
# and classifier. A stage chooses what the convolutions are: conv_cfg.
model = dict(
    type='rebnn_mm.TeacherStudentClassifier',
    backbone=dict(type='BinaryMobileNet', block='react', out_indices=(4,)),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead',
        num_classes=1000,
        in_channels=1024,
        loss=dict(type='CrossEntropyLoss', loss_weight=1.0),
        topk=(1, 5),
    ),
    teacher='mmpretrain::resnet/resnet34_8xb32_in1k.py',
    teacher_checkpoint='torchvision://resnet34',
    teacher_loss=dict(type='DistributionLoss'),
)
