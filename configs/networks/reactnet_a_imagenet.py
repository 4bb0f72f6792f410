_base_ = './reactnet_a_stage1_imagenet.py'

# ReActNet-A, stage 2: top-1 69.4 (ReActNet's paper). Everything that stage 1 learned is transferred; the released code
# drops the binary layers' weights between its stages.
model = dict(backbone=dict(conv_cfg=dict(_delete_=True, **_base_.binary)))
optim_wrapper = dict(optimizer=dict(weight_decay=0))
load_from = 'work_dirs/reactnet_a_stage1_imagenet/epoch_256.pth'
