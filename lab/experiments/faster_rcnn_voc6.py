# Faster R-CNN C4 on six classes of VOC 2012 at 224x224, flipped only: full-precision, and 1-bit with the layers of
# four methods, each started and distilled by one full-precision teacher of the same blocks. The teacher starts from a
# classifier of 50 classes of Tiny-ImageNet, made before from data/classes (configs/pretrain/resnet18_classes.py):
#     python tools/train.py configs/pretrain/resnet18_teacher_classes.py --cfg-options randomness.seed=1 \
#         optim_wrapper.type=Bfloat16OptimWrapper train_cfg.max_epochs=15 param_scheduler.1.T_max=15
_base_ = './one_bit_voc6_224.py'

title = 'Faster R-CNN C4 on six classes of VOC at 224x224 (unit: 3 epochs)'
budget = {'train_cfg.max_epochs': 3, 'param_scheduler.1.end': 3}
long = {'train_cfg.max_epochs': 6, 'param_scheduler.1.end': 6}
options = {
    '_delete_': True,  # the other detector's head
    **{key: value for key, value in _base_.options.items() if not key.startswith('model.')},
    'train_cfg.val_interval': 3,
    'default_hooks.checkpoint.interval': 1,
    'default_hooks.checkpoint.max_keep_ckpts': 2,
    'optim_wrapper.type': 'Bfloat16OptimWrapper',
    'model.roi_head.bbox_head.num_classes': 6,
    # Objects of 15 to 200 pixels, wide and tall, on positions 16 pixels apart.
    'model.rpn_head.anchor_generator.scales': [2.0, 4.0, 8.0, 12.0],
    'model.rpn_head.anchor_generator.ratios': [0.5, 1.0, 2.0],
    # Stage 4 sees every region, so these decide what a step and a test cost.
    'model.train_cfg.rcnn.sampler.num': 16,
    'model.test_cfg.rpn.max_per_img': 50,
    # A test takes as long as half an epoch, so training ends with one of the first 100 images alone. The metric counts
    # the boxes of all, so only the test is a score.
    'val_dataloader.dataset.indices': 100,
}
parts = ('backbone', 'rpn_head', 'roi_head.shared_head')
start = dict(type='Pretrained', checkpoint='work_dirs/resnet18_teacher_classes/epoch_15.pth', prefix='backbone.')
started = {'model.backbone.init_cfg': start, 'model.roi_head.shared_head.init_cfg': start}
latent = 'optim_wrapper.paramwise_cfg.roles.latent_weight'
moving = {f'{latent}.relative': True, f'{latent}.lr_mult': 4}
teacher, taught = (f'configs/bccd/faster_rcnn_r18_{name}_bccd.py' for name in ('teacher', 'rebnn_taught'))
runs = [
    dict(name='teacher', label='full-precision, same blocks, the teacher (1)', config=teacher, options=started),
    dict(name='twin', label='full-precision, same blocks (2)', config=teacher, options=started, budget=long),
]
for name, layer, label in (
    ('rebnn', 'ReBNNConv2d', 'ReBNN'),
    ('bireal', 'BiRealConv2d', 'Bi-Real Net'),
    ('bidet', 'BiDetConv2d', "BiDet's layers"),
    ('xnor', 'XNORConv2d', 'XNOR-Net'),
):
    if name == 'rebnn':
        convs = {f'model.{part}.conv_cfg.max_share': 0.01 for part in parts}
    else:
        conv = dict(_delete_=True, type=layer, keep_real=['downsample', 'shortcut'])
        convs = {**{f'model.{part}.conv_cfg': conv for part in parts}, 'custom_hooks': [dict(type='BinaryHook')]}
    runs += [
        dict(
            name=name,
            label=f'{label}, started and distilled (1 + 1)',
            config=taught,
            options={**moving, **convs},
            teacher='teacher',
        )
    ]
del long, parts, start, started, latent, moving, teacher, taught
del name, layer, label, convs, conv
