# Blood cells from scratch: 24 epochs, sized for two CPU cores.
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='Adam', lr=5e-4), clip_grad=dict(max_norm=35))
max_epochs = 24
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, by_epoch=False, begin=0, end=50),
    dict(type='LinearLR', start_factor=1, end_factor=0, by_epoch=True, end=max_epochs, convert_to_iter_based=True),
]
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=max_epochs, val_interval=4)
val_cfg = dict(type='ValLoop')
test_cfg = dict(type='TestLoop')
