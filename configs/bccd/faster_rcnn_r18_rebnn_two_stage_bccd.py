_base_ = './faster_rcnn_r18_rebnn_taught_bccd.py'

# Stage 2 of two: ReBNN from the weights of the first stage, with the same teacher.
model = dict(start_from_teacher=False)
load_from = 'work_dirs/faster_rcnn_r18_react_stage1_bccd/epoch_24.pth'
