_base_ = [
    '../_base_/datasets/imagenet_bs128.py',
    '../_base_/schedules/imagenet_sgd_200e.py',
    '../_base_/runtime/imagenet.py',
    '../_base_/methods/rebnn.py',
]

# The binary backbone of SSD300 as a classifier. The paper and BiDet fine-tune their detectors from one and publish no
# weights; the schedule here is the paper's for ResNet-18. Start the detector from it with
#     --cfg-options model.backbone.init_cfg.checkpoint=work_dirs/vgg16_rebnn_imagenet/epoch_200.pth
#     model.backbone.init_cfg.prefix=backbone.
model = dict(
    type='ImageClassifier',
    backbone=dict(type='BinarySSDVGG', block='react', out_indices=(1,), conv_cfg=_base_.binary),
    neck=dict(type='GlobalAveragePooling'),
    head=dict(
        type='LinearClsHead',
        num_classes=1000,
        in_channels=1024,
        loss=dict(type='CrossEntropyLoss'),
        topk=(1, 5),
    ),
)
