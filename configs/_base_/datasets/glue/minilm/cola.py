# Sized for one CPU core: 1,500 iterations, 1,600 for the full-precision row; not timed. Rows of two stages take twice
# as long.
_base_ = '../bert_base/cola.py'

fine_tune = dict(max_iters=1600, val_interval=400)  # of the full-precision row
fine_tune_optim_wrapper = dict(_delete_=True, optimizer=dict(lr=5e-5))
# all-MiniLM-L6-v2: 6 layers, width 384, 22.7 million parameters. docs/glue.md says where it is to be had.
pretrained = 'data/minilm'
pipeline = [dict(type='TokenizeText', tokenizer='data/minilm', max_length=64)]
loader = dict(dataset=dict(pipeline=pipeline), num_workers=0, persistent_workers=False)
sampler = dict(_delete_=True, type='LengthGroupedSampler', batch_size=16)
train_dataloader = dict(sampler=sampler, **loader)
val_dataloader = loader
test_dataloader = loader
optim_wrapper = dict(optimizer=dict(lr=1e-4))
train_cfg = dict(max_iters=1500, val_interval=500)
default_hooks = dict(checkpoint=dict(interval=250))
