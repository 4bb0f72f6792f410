# A 1-bit detector with RTMDet's head, started and distilled from the full-precision detector of the same blocks: its
# class scores and boxes at all points, and the maps of backbone and neck.
taught = dict(
    type='rebnn_mm.TeacherStudentDetector',
    student='RTMDet',
    start_from_teacher=True,
    losses=[
        dict(type='DenseScoreLoss', weight=1.0),
        dict(type='DenseBoxLoss', weight=2.0),
        dict(type='PKDLoss', modules=['backbone', 'neck'], weight=1.0),
    ],
)
