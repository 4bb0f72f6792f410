# The student of two-stage training: ReActNet's blocks, and a full-precision ResNet-34 as teacher in both stages. The
# loss compares class probabilities; labels are not used.
# torchvision's weights (73.3 top-1) are the paper's full-precision row. Those of mmpretrain (73.6) load as well:
# teacher_checkpoint=https://download.openmmlab.com/mmclassification/v0/resnet/resnet34_8xb32_in1k_20210831-f257d4e6.pth
_base_ = './resnet18_imagenet_binary.py'

model = dict(
    type='rebnn_mm.TeacherStudentClassifier',
    backbone=dict(block='react'),
    teacher='mmpretrain::resnet/resnet34_8xb32_in1k.py',
    teacher_checkpoint='torchvision://resnet34',
    teacher_loss=dict(type='DistributionLoss'),
)
