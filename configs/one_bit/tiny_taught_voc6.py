_base_ = ['./tiny_voc6.py', '../_base_/models/one_bit_taught.py']

# The tiny 1-bit detector with a teacher of its own blocks.
model = dict(
    teacher='configs/one_bit/tiny_teacher_voc6.py',
    teacher_checkpoint='work_dirs/tiny_teacher_voc6/epoch_6.pth',
    **_base_.taught,
)
