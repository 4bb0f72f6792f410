_base_ = ['./nano_bccd.py', '../_base_/models/one_bit_taught.py']

# The nano 1-bit detector with a teacher of its own blocks.
model = dict(
    teacher='configs/one_bit/nano_teacher_bccd.py',
    teacher_checkpoint='work_dirs/nano_teacher_bccd/epoch_48.pth',
    **_base_.taught,
)
