# Each of two stages: Adam 1e-3, linearly to 0 over 256 epochs, no weight decay (the paper's numbers).
# The paper names no batch size; 512 is that of ReActNet's and of Bi-Real Net's scripts.
optim_wrapper = dict(constructor='BinaryOptimWrapperConstructor', optimizer=dict(type='Adam', lr=1e-3, weight_decay=0))
param_scheduler = dict(
    type='LinearLR', start_factor=1, end_factor=0, by_epoch=True, begin=0, end=256, convert_to_iter_based=True
)
train_cfg = dict(by_epoch=True, max_epochs=256, val_interval=1)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(base_batch_size=512)
