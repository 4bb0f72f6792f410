_base_ = './real_to_binary_stage1_imagenet.py'

# Stage 2 of three, from scratch: real weights, binary inputs (W32A1). The network of stage 1 is the teacher.
model = dict(
    backbone=dict(conv_cfg=dict(_delete_=True, **_base_.binary, weight=None)),
    teacher=dict(
        _delete_=True,
        type='ImageClassifier',
        backbone=_base_.model.backbone,
        neck=_base_.model.neck,
        head=_base_.model.head,
    ),
    teacher_checkpoint='work_dirs/real_to_binary_stage1_imagenet/epoch_75.pth',
)
