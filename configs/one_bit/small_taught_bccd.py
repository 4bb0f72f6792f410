_base_ = ['./small_bccd.py', '../_base_/models/one_bit_taught.py']

# The small 1-bit detector with a teacher of its own blocks.
model = dict(
    teacher='configs/one_bit/small_teacher_bccd.py',
    teacher_checkpoint='work_dirs/small_teacher_bccd/epoch_48.pth',
    **_base_.taught,
)
