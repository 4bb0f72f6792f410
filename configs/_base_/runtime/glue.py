# Runtime, loaders and schedule of every GLUE config; the task's own numbers are in bert_base/ and minilm/.
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
default_scope = 'mmengine'
default_hooks = dict(
    timer=dict(type='IterTimerHook'),
    logger=dict(type='LoggerHook', interval=50),
    param_scheduler=dict(type='ParamSchedulerHook'),
    # The best of all evaluations on the development set is what the papers report; it is best_glue_*.pth.
    checkpoint=dict(type='CheckpointHook', by_epoch=False, interval=1000, max_keep_ckpts=1, rule='greater'),
    seed=dict(type='IterSeedHook'),
)
env_cfg = dict(
    cudnn_benchmark=False, mp_cfg=dict(mp_start_method='fork', opencv_num_threads=0), dist_cfg=dict(backend='nccl')
)
log_processor = dict(by_epoch=False)
log_level = 'INFO'
load_from = None
resume = False
randomness = dict(seed=42)

workers = dict(num_workers=2, persistent_workers=True, collate_fn=dict(type='glue_collate'))
train_dataloader = dict(batch_size=16, sampler=dict(type='InfiniteSampler', shuffle=True), **workers)
val_dataloader = dict(batch_size=64, sampler=dict(type='DefaultSampler', shuffle=False), **workers)
test_dataloader = val_dataloader

# BERT's Adam: no bias correction, decay on weights only, each tensor's gradient clipped to norm 1.
optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor',
    optimizer=dict(type='BertAdam', lr=1e-4, weight_decay=0.01, clip_norm=1.0),
    # Weights start as those of a trained encoder, whose scale this rate was made for.
    paramwise_cfg=dict(bias_decay_mult=0.0, roles=dict(latent_weight=dict(relative=False))),
)
param_scheduler = dict(type='WarmupLinearLR', warmup=0.1, by_epoch=False)
train_cfg = dict(by_epoch=False)
val_cfg = dict()
test_cfg = dict()

# Of the full-precision rows, whose recipe the papers leave out: bias correction, a small rate, many epochs on small
# tasks (Mosbach et al. 2021, On the stability of fine-tuning BERT).
fine_tune_optim_wrapper = dict(
    optimizer=dict(_delete_=True, type='AdamW', lr=2e-5, eps=1e-6, weight_decay=0.01), clip_grad=dict(max_norm=1.0)
)

# bert-base-uncased: 12 layers, width 768. One of
#   hf download google-bert/bert-base-uncased --local-dir data/bert_base_uncased
#   ln -s /path/to/your/bert-base-uncased data/bert_base_uncased
pretrained = 'data/bert_base_uncased'
