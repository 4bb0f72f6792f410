"""Stock configs of mmdet and mmpretrain, most of whose parts take no ``conv_cfg``, made binary as a whole."""

import re

import pytest
import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.hub import get_config
from mmengine.registry import MODELS, DefaultScope
from torch.nn import functional

from rebnn_mm.analysis.layer_counter import count_layers
from rebnn_mm.export.examples import Image
from rebnn_mm.export.exporter import export
from rebnn_mm.layers.report import layer_rows

pytest.importorskip('mmdet')
pytest.importorskip('mmpretrain')

from tests.export.detection.detectors import lively

from .stock import binary_layers, separate, train_one_step

BINARIZED = """
_base_ = '{base}'
custom_imports = dict(imports=['rebnn_mm'], allow_failed_imports=False)
custom_hooks = [dict(type='ReBNNHook')]
optim_wrapper = dict(constructor='BinaryOptimWrapperConstructor')
model = dict(
    type='rebnn_mm.Binarized',
    real=_base_.model.type,
    conv=dict(type='ReBNNConv2d'),
    linear=dict(type='ReBNNLinear'),
    image_size=({size}, {size}),
)
"""

RESNET = r'backbone\.conv1|.*downsample\.0|head\.fc|'
REGIONS = RESNET + r'rpn_head\.rpn_(cls|reg)|.*fc_(cls|reg)|.*conv_logits|.*upsample'

MOBILENET = r'.*conv1\.conv|.*layer1\.0\.conv\.0\.conv|.*layer[2-7]\.\d\.conv\.1\.conv|head\.fc'

# Base config, height and width of images, number of layers that become binary, and those that keep full precision.
STOCK = [
    ('mmdet::rtmdet/rtmdet_tiny_8xb32-300e_coco', 64, 59, r'.*stem\.0.*|.*depthwise.*|.*\.attention\.fc|.*rtm_.*'),
    ('mmdet::yolox/yolox_tiny_8xb8-300e_coco', 64, 73, r'backbone\.stem\..*|.*level_conv_(cls|reg|obj)\..*'),
    ('mmdet::ssd/ssd300_coco', 300, 22, r'backbone\.features\.0|bbox_head\..*'),
    ('mmdet::detr/detr_r50_8xb2-150e_coco', 64, 75, RESNET + r'.*\.attn(\.out_proj)?|bbox_head\.fc_(cls|reg)'),
    ('mmdet::mask_rcnn/mask-rcnn_r50_fpn_1x_coco', 64, 63, REGIONS),
    ('mmdet::cascade_rcnn/cascade-rcnn_r50_fpn_1x_coco', 64, 63, REGIONS),
    (
        'mmdet::tood/tood_r50_fpn_1x_coco',
        64,
        66,
        RESNET + r'bbox_head\.(.*attention\.2|tood_.*|.*module\.2|.*reduction_conv\.conv)',
    ),
    ('mmpretrain::mobilenet_v2/mobilenet-v2_8xb32_in1k', 64, 34, MOBILENET),
    ('mmpretrain::resnet/resnet50_8xb32_in1k', 64, 48, RESNET),
    ('mmpretrain::regnet/regnetx-400mf_8xb128_in1k', 64, 66, RESNET),
    ('mmpretrain::convnext/convnext-tiny_32xb128_in1k', 64, 39, r'.*layers\.0\.0|.*depthwise_conv|head\.fc'),
    ('mmpretrain::swin_transformer/swin-tiny_16xb64_in1k', 224, 51, r'.*patch_embed\.projection|head\.fc'),
    ('mmpretrain::vision_transformer/vit-base-p16_64xb64_in1k', 224, 49, r'.*projection|head\.layers\.head'),
]

QUICK = ('rtmdet_tiny', 'mobilenet', 'convnext')


def stock(row):
    name = row[0].split('/')[-1]
    return pytest.param(*row, id=name, marks=() if name.startswith(QUICK) else pytest.mark.slow)


def binarized(base, size, folder):
    (folder / 'binarized.py').write_text(BINARIZED.format(base=f'{base}.py', size=size))
    cfg = Config.fromfile(folder / 'binarized.py')
    if 'roi_head' in cfg.model:
        stages = cfg.model.train_cfg.rcnn
        for stage in stages if isinstance(stages, list) else [stages]:
            stage.sampler.num = 32
    if 'ssd' in base:
        cfg.model.bbox_head.type = 'rebnn_mm.FixedSSDHead'
    return cfg


@pytest.mark.parametrize(('base', 'size', 'count', 'real'), [stock(row) for row in STOCK])
def test_any_stock_model_becomes_binary(base, size, count, real, detection_batch, classification_samples, tmp_path):
    cfg = binarized(base, size, tmp_path)
    detector = base.startswith('mmdet')
    samples = separate(detection_batch) if detector else classification_samples(size)
    if detector:
        for sample in samples:
            least = max(0, size - 96), max(0, size - 128)
            sample['inputs'] = functional.pad(sample['inputs'], (0, least[1], 0, least[0]))
            if 'mask' not in base:
                del sample['data_samples'].gt_instances.masks
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        runner, watch = train_one_step(cfg, samples, tmp_path)
        again = MODELS.build(binarized(base, size, tmp_path).model)
        plain = MODELS.build(get_config(f'{base}.py').model)
    model = runner.model
    layers = binary_layers(model)
    stay_real = [row.name for row in layer_rows(model) if row.name not in layers and row.kind != 'Embedding']
    assert len(layers) == count
    assert [name for name in stay_real if not re.fullmatch(real, name)] == []
    assert [name for name in layers if re.fullmatch(real, name)] == []
    assert len([name for name, size in watch.gradient.items() if 0 < size < float('inf')]) > 0.8 * len(watch.gradient)
    # Keys are the real model's but for the quantizers'.
    assert {key for key in model.state_dict() if '_quantizer' not in key} >= plain.state_dict().keys()
    again.load_state_dict(model.state_dict())
    with torch.no_grad():
        results = [m.eval().test_step(pseudo_collate(samples))[0] for m in (model, again)]
    costs = count_layers(model, lambda: model.test_step(pseudo_collate(samples[:1])))
    assert {cost.name for cost in costs if cost.precision == 'W1A1'} == layers.keys()
    first, second = (result.pred_instances.scores if detector else result.pred_score for result in results)
    assert torch.equal(first, second)


# What there is no graph for, and what is told.
NO_GRAPH = {'detr_r50': 'DETR gives no output for an image alone', 'tood': 'TOOD cannot be traced'}


@pytest.mark.slow
@pytest.mark.parametrize(
    ('base', 'size'), [stock(row).values[:2] for row in STOCK], ids=[r[0].split('/')[-1] for r in STOCK]
)
def test_its_file_agrees_with_pytorch(base, size, tmp_path):
    """The comparison is the exporter's own, which refuses what differs."""
    cfg = binarized(base, size, tmp_path)
    cfg.model.get('backbone', {}).pop('init_cfg', None)
    torch.manual_seed(0)
    with DefaultScope.overwrite_default_scope(cfg.default_scope):
        model = lively(MODELS.build(cfg.model))
        images = [Image(torch.randn(1, 3, size, size).numpy(), (size, size)) for _ in range(2)]
        refused = next((why for name, why in NO_GRAPH.items() if name in base), None)
        if refused:
            with pytest.raises(ValueError, match=refused):
                export(model, examples=images, size=(size, size))
            return
        verification = export(model, examples=images, size=(size, size)).verification
    binary = {name for name, layer in model.named_modules() if getattr(layer, 'binary', False)}
    assert verification.images == 2 and {name.partition('/')[0] for name in verification.flips} <= binary
