# One schedule for every method. SGD at 0.1 with a cosine and a short warm-up is what RBNN, ReCU, AdaBin and ReBNN's
# one-stage setting have in common; they run it for 400 to 1000 epochs, so 200 epochs lose some points to their tables.
optim_wrapper = dict(
    constructor='BinaryOptimWrapperConstructor',
    # So signs move where a method normalises its latent weights, or a network has no shortcuts; for the others there
    # is cifar10_moving_200e.py.
    paramwise_cfg=dict(roles=dict(latent_weight=dict(relative=False))),
    optimizer=dict(type='SGD', lr=0.1, momentum=0.9, weight_decay=1e-4),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=0.01, by_epoch=True, end=5, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', by_epoch=True, begin=5, end=200, T_max=195, convert_to_iter_based=True),
]
train_cfg = dict(by_epoch=True, max_epochs=200, val_interval=5)
val_cfg = dict()
test_cfg = dict()
auto_scale_lr = dict(base_batch_size=128)
