from copy import deepcopy

import pytest
import torch
from torch import nn

pytest.importorskip('mmdet')

from mmdet.models.detectors import FasterRCNN

from .taught_samples import (
    BINARY,
    IMAGES,
    LAYERWISE,
    c4,
    losses_of,
    retina,
    save_teacher,
)

# Some tests look at a loss only and never step.
pytestmark = pytest.mark.filterwarnings('ignore:.*trained without the resilient gradient')


def with_rpn(scales):
    cfg = deepcopy(c4(None))
    cfg['rpn_head']['anchor_generator']['scales'] = scales
    return cfg


def with_stds(value):
    cfg = deepcopy(c4(None))
    cfg['roi_head']['bbox_head']['bbox_coder'] = dict(type='DeltaXYWHBBoxCoder', target_stds=[value] * 4)
    return cfg


def with_softmax(conv_cfg=BINARY):
    return c4(conv_cfg, loss_cls=dict(type='CrossEntropyLoss', use_sigmoid=False))


UNTURNED = dict(type='DetDataPreprocessor', mean=[120.0, 110.0, 100.0], std=[60.0, 60.0, 60.0])
TURNED = dict(UNTURNED, rgb_to_bgr=True, bgr_to_rgb=False)


def checkpointed():
    cfg = deepcopy(c4())
    cfg['backbone']['with_cp'] = True
    return cfg


@pytest.mark.parametrize(
    ('options', 'message'),
    [
        (dict(teacher_checkpoint=None), 'the teacher has no weights.*Give teacher_checkpoint'),
        (dict(teacher=c4(None, classes=7)), 'the student has 3 classes, the teacher 7'),
        (dict(teacher_checkpoint='not/there.pth'), 'no checkpoint at not/there.pth'),
        (
            dict(teacher={**c4(None), 'data_preprocessor': dict(IMAGES, mean=[0.0, 0.0, 0.0])}),
            r'trained with mean=\[0.0, 0.0, 0.0\].*whose mean is \[120.0, 110.0, 100.0\]',
        ),
        (
            dict(teacher={**c4(None), 'data_preprocessor': dict(IMAGES, bgr_to_rgb=False)}),
            r'trained with bgr_to_rgb=\[0.0\].*whose bgr_to_rgb is \[1.0\]',
        ),
        (
            dict(teacher={**c4(None), 'data_preprocessor': {k: v for k, v in IMAGES.items() if k != 'bgr_to_rgb'}}),
            r'trained with bgr_to_rgb=\[0.0\].*whose bgr_to_rgb is \[1.0\]',
        ),
        (
            dict(student={**c4(), 'data_preprocessor': UNTURNED}, teacher={**c4(None), 'data_preprocessor': TURNED}),
            r'trained with bgr_to_rgb=\[1.0\].*whose bgr_to_rgb is \[0.0\]',
        ),
        (
            dict(teacher={**c4(None), 'data_preprocessor': dict(IMAGES, std=[1.0, 1.0, 1.0])}),
            r'trained with std=\[1.0, 1.0, 1.0\].*whose std is \[60.0, 60.0, 60.0\]',
        ),
        (
            dict(teacher={**c4(None), 'data_preprocessor': dict(type='DetDataPreprocessor')}),
            r'trained with mean=None.*whose mean is \[120.0, 110.0, 100.0\]',
        ),
        (
            dict(student={**c4(), 'data_preprocessor': dict(type='DetDataPreprocessor')}),
            r'trained with mean=\[120.0, 110.0, 100.0\].*whose mean is None',
        ),
        (dict(teacher=7), 'teacher=7 is neither a config file nor the dict of a model'),
        (dict(teacher='mmdet::retinanet/retinanet_r5.py'), 'retinanet_r5.py. is not a config of a library'),
        (dict(losses=dict(type='DKDLoss')), r'losses is to be a list of losses, each a dict'),
        (dict(losses=None), r'losses is to be a list of losses, each a dict'),
        (dict(losses=['DKDLoss']), r'losses is to be a list of losses, each a dict'),
        (
            dict(losses=[dict(type='ObjectnessLoss')], teacher=with_rpn(scales=[3, 6])),
            'ObjectnessLoss compares what heads predict, and the anchors of the student are .* leave this loss out',
        ),
        (
            dict(losses=[dict(type='RegionBoxLoss')], teacher=with_stds(0.5)),
            'RegionBoxLoss compares what heads predict, and the units of boxes of the student are .*DeltaXYWH',
        ),
        (
            dict(losses=[dict(type='ObjectnessLoss')], student=with_softmax(), teacher=with_softmax(None)),
            r'ObjectnessLoss compares objectness of .*\(an rpn_head with anchors and sigmoids\), which the student',
        ),
        (
            dict(losses=LAYERWISE, student=checkpointed()),
            'layer backbone.layer2.0.conv1 is compared, and backbone.layer2.0 computes it .*with_cp=False',
        ),
        (dict(teacher=c4(None, width=8)), r'the teacher cannot be filled .* fills \d+ of the \d+ parameters'),
        (dict(student=dict(c4(), type='FasterRCN')), "student='FasterRCN' is not a detector of mmdet"),
        (dict(student=dict(c4(), type='BBoxHead')), "student='BBoxHead' is not a detector of mmdet"),
        (dict(losses=[]), 'losses is empty, so nothing is learned.*start_from_teacher=True'),
        (dict(losses=[dict(type='DenseScoreLoss')]), r'DenseScoreLoss compares .*bbox_head\), which the student does'),
        (
            dict(losses=[dict(type='DistributionLoss')]),
            'DistributionLoss in losses is no DetectorComparisonLoss. Use some of: .*PKDLoss',
        ),
        (
            dict(losses=[dict(type='PKDLoss', modules=['neck'])]),
            "PKDLoss compares 'neck', which the student does not have. Its parts: backbone, rpn_head, roi_head.",
        ),
        (
            dict(losses=[dict(type='LayerwiseLoss', parts=['roi_head.bbox_head'])]),
            'binary layers of roi_head.bbox_head are to be compared, and it has none',
        ),
        (
            dict(losses=LAYERWISE, teacher=c4(None, width=8)),
            'the layer backbone.layer2.0.conv1 is compared, and the teacher has no convolution of this name',
        ),
        (
            dict(losses=LAYERWISE, student=c4(dict(type='BinaryConv2d', weight='AdaBinWeight'))),
            'the layer backbone.layer2.0.conv1 is compared, and AdaBinWeight gives it no signs with a factor',
        ),
        (dict(teacher=retina(None)), 'DKDLoss compares regions .*, which the teacher does not have.*same kind'),
        (
            dict(student=c4(block='react'), start_from_teacher=True),
            r'start_from_teacher: the teacher fills \d+ parameters of the student, not rpn_head.rpn_conv.0.act',
        ),
    ],
)
def test_errors_say_what_to_do(build, options, message):
    with pytest.raises(ValueError, match=message):
        build(**options)


def test_a_checkpoint_of_a_deeper_teacher_is_refused_and_one_with_another_head_is_not(build, teacher_file, tmp_path):
    deeper = c4(None)
    deeper['backbone']['depth'] = 34
    path = save_teacher(deeper, tmp_path / 'deeper.pth')
    with pytest.raises(
        ValueError, match=r'teacher cannot.* a deeper network: this model has no backbone\.layer1\.2\.'
    ):
        build(teacher_checkpoint=str(path))
    build(teacher=deeper, teacher_checkpoint=str(path))
    with pytest.raises(ValueError, match=r'teacher is deeper than the student, which has no backbone\.layer1\.2\.'):
        build(teacher=deeper, teacher_checkpoint=str(path), start_from_teacher=True)
    state = torch.load(teacher_file)
    state['state_dict']['roi_head.mask_head.conv_logits.weight'] = torch.ones(1)
    torch.save(state, tmp_path / 'with_masks.pth')
    assert build(teacher_checkpoint=str(tmp_path / 'with_masks.pth')).teacher_ready


def test_what_training_does_not_call_cannot_be_compared(build):
    model = build(losses=[dict(type='PKDLoss', modules=['roi_head.bbox_head.loss_bbox'])])
    model.backbone.unused = nn.Identity()
    model.teacher_losses[0].compared = ('backbone.unused',)
    with pytest.raises(ValueError, match=r'training does not call backbone\.unused, so nothing'):
        losses_of(model)


@pytest.mark.parametrize('memory', ['plain', 'sums', 'recompute'])
def test_a_map_inside_of_a_block_is_compared(build, memory):
    losses = [dict(type='PKDLoss', modules=['backbone.layer2.0.bn1'])]
    model = build(losses=losses, student=c4(dict(BINARY, memory=memory)))
    losses_of(model)['loss_pkd_backbone.layer2.0.bn1'].backward()
    assert model.backbone.layer2[0].conv1.weight.grad.any()
    block = build(losses=[dict(type='PKDLoss', modules=['backbone.layer2.0'])])
    losses_of(block)['loss_pkd_backbone.layer2.0'].backward()
    assert block.backbone.layer2[0].conv1.weight.grad.any()
    with torch.no_grad():
        losses_of(block)


def test_a_map_without_history_is_refused(build, monkeypatch):
    forward = torch.nn.BatchNorm2d.forward
    monkeypatch.setattr(torch.nn.BatchNorm2d, 'forward', lambda self, x: forward(self, x).detach())
    with pytest.raises(ValueError, match=r'output of backbone\.layer2\.0\.bn1 has no gradient.*Compare the block'):
        losses_of(build(losses=[dict(type='PKDLoss', modules=['backbone.layer2.0.bn1'])]))


class Twice(FasterRCNN):
    """Looks at each image in two ways, as TridentNet does in three."""

    def loss(self, batch_inputs, batch_data_samples):
        return super().loss(torch.cat([batch_inputs, batch_inputs]), batch_data_samples * 2)


def test_regions_of_images_that_the_teacher_does_not_have_are_refused(build):
    with pytest.raises(ValueError, match='student makes maps of 4 images from 2 .*Leave out the losses that compare'):
        losses_of(build(student=dict(c4(), type=Twice), losses=[dict(type='DKDLoss')]))


def test_what_is_frozen_cannot_learn(build):
    student = c4()
    student['backbone']['frozen_stages'] = student['backbone']['num_stages']
    with pytest.raises(ValueError, match=r'backbone is compared with the teacher, and is frozen.*frozen_stages=-1'):
        losses_of(build(losses=[dict(type='PKDLoss', modules=['backbone'])], student=student).train())


def test_channels_that_both_turn_the_other_way_are_the_same(build):
    student, teacher = ({**c4(conv), 'data_preprocessor': TURNED} for conv in (BINARY, None))
    assert losses_of(build(student=student, teacher=teacher))['loss_dkd'].isfinite()
