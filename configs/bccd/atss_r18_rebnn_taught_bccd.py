_base_ = './atss_r18_rebnn_bccd.py'

# Blood cells with ATSS, 1-bit, started and distilled from the detector of the same blocks in full precision: its
# class scores and boxes at all points, and the maps of backbone and FPN.
model = dict(
    type='rebnn_mm.TeacherStudentDetector',
    student='ATSS',
    teacher='configs/bccd/atss_r18_teacher_bccd.py',
    teacher_checkpoint='work_dirs/atss_r18_teacher_bccd/epoch_24.pth',
    start_from_teacher=True,
    losses=[
        dict(type='DenseScoreLoss', weight=1.0),
        dict(type='DenseBoxLoss', weight=1.0),
        dict(type='PKDLoss', modules=['backbone', 'neck'], weight=1.0),
    ],
)
