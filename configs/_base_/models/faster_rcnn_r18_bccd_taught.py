# Blood cells, 1-bit, distilled from the detector of the same blocks in full precision: its class scores on the
# student's own regions, its objectness, and the maps of both backbone parts. The student starts from its weights.
# A row also inherits a method and hands its layer to the three binary parts: conv_cfg=_base_.binary.
_base_ = './faster_rcnn_r18_bccd_binary.py'

model = dict(
    type='rebnn_mm.TeacherStudentDetector',
    student='FasterRCNN',
    teacher='configs/bccd/faster_rcnn_r18_teacher_bccd.py',
    teacher_checkpoint='work_dirs/faster_rcnn_r18_teacher_bccd/epoch_24.pth',
    start_from_teacher=True,
    losses=[
        dict(type='DKDLoss', weight=1.0),
        dict(type='ObjectnessLoss', weight=1.0),
        dict(type='PKDLoss', modules=['backbone', 'roi_head.shared_head'], weight=1.0),
    ],
    rpn_head=dict(block='react'),
)
