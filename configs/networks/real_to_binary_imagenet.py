_base_ = './real_to_binary_stage2_imagenet.py'

# Real-to-Binary, stage 3 of three: top-1 65.4 (the paper's number; Larq Zoo's weights: top-1 65.01, top-5 85.72). The
# network of stage 2 is start and teacher; its maps are not compared. As in Larq Zoo's, the gate is the only factor
# of a filter; a BinaryConv2d with BinarySign has mean(abs(w)).
model = dict(
    backbone=dict(conv_cfg=dict(_delete_=True, **_base_.binary)),
    teacher=dict(backbone=dict(_delete_=True, **_base_.model.backbone)),
    teacher_checkpoint='work_dirs/real_to_binary_stage2_imagenet/epoch_75.pth',
    teacher_loss=dict(loss_weight=0.8),
    losses=[],
)
optim_wrapper = dict(optimizer=dict(lr=2e-4, weight_decay=0))
load_from = 'work_dirs/real_to_binary_stage2_imagenet/epoch_75.pth'
