# What all runs on CIFAR-10's subset share: ten epochs on the first 10,000 training images, validated on the first
# 2,000 test images while they train, and scored on all 10,000. Of the options the first leaves out the last 16 images
# of an epoch, for which the network would be compiled once more; the others only say what is logged and kept.
score = 'accuracy/top1'
seeds = [0, 1, 2]
budget = {
    'train_cfg.max_epochs': 10,
    'param_scheduler.end': 10,
    'train_dataloader.dataset.indices': 10000,
    'val_dataloader.dataset.indices': 2000,
}
test = {'test_dataloader.dataset.indices': 10000}
options = {
    'train_dataloader.drop_last': True,
    'train_cfg.val_interval': 2,
    'default_hooks.logger.interval': 13,
    'default_hooks.checkpoint.interval': 1,
    'default_hooks.checkpoint.max_keep_ckpts': 2,
}
hooks = [dict(type='BinaryWeightRecorderHook', layers=[]), dict(type='CompileHook', part='backbone')]
