# A 1-bit detector with RTMDet's head, started and taught by the detector of the same blocks with real layers: its
# class scores and boxes at all points, and the maps of backbone and neck. Boxes are in pixels and so weigh less.
taught = dict(
    type='rebnn_mm.TeacherStudentDetector',
    student='RTMDet',
    start_from_teacher=True,
    losses=[
        dict(type='DenseScoreLoss', weight=1.0),
        dict(type='DenseBoxLoss', weight=0.2),
        dict(type='PKDLoss', modules=['backbone', 'neck'], weight=1.0),
    ],
)
