# What all runs on the whole of CIFAR-10 share: the images lie on the device as one tensor, the network is compiled
# and computes in bfloat16 where autocast allows; binarization stays in float32.
score = 'accuracy/top1'
seeds = [0, 1, 2]
budget = {'train_cfg.max_epochs': 200}
images = dict(type='CIFAR10Resident', data_root='data/cifar10', data_prefix=dict(root='cifar-10-batches-py'))
loader = dict(_delete_=True, num_workers=0, collate_fn=dict(type='rebnn_whole_batch'))
options = {
    'train_dataloader': dict(
        batch_size=128,
        drop_last=True,
        sampler=dict(type='DefaultSampler', shuffle=True),
        dataset=dict(split='train', padding=4, **images),
        **loader,
    ),
    'val_dataloader': dict(
        batch_size=1000,
        sampler=dict(type='DefaultSampler', shuffle=False),
        dataset=dict(split='test', **images),
        **loader,
    ),
    'optim_wrapper.type': 'Bfloat16OptimWrapper',
    # One kernel for all parameters: 5 % of a step of ResNet-20 on one thread.
    'optim_wrapper.optimizer.fused': True,
    'train_cfg.val_interval': 10,
    'default_hooks.logger.interval': 100,
    'default_hooks.checkpoint.interval': 10,
    'default_hooks.checkpoint.max_keep_ckpts': 2,
}
hooks = [dict(type='BinaryWeightRecorderHook', layers=[]), dict(type='CompileHook', part='backbone')]
del images, loader
