"""BiDet's released SSD300: its maps, boxes, detections and images are those of our config, in PyTorch and packed."""

import re

import cv2
import numpy as np
import pytest
import torch
from mmengine.config import Config

pytest.importorskip('mmdet')

import mmcv
from mmcv.transforms import Compose
from mmdet.registry import MODELS, TRANSFORMS
from mmdet.utils import register_all_modules

from rebnn_mm.export import pack
from rebnn_mm.export.detection.whole_graph import detector_graph
from rebnn_mm.export.difference import agreement
from rebnn_mm.utils.checkpoint import check_checkpoint
from tests.configs.ssd import narrow
from tests.export.detection.detectors import predicted, run
from tests.refusal import refusal
from tests.scripts import ROOT, load_script, run_script

from .released_networks import drawn, norm
from .released_ssd import CLASSES, binary, decoded, detections, maps, predictions, prior_boxes, shapes

register_all_modules(init_default_scope=False)

TOOL = 'lab/tools/import_released.py'
tool = load_script(TOOL)

RELEASED = tool.RELEASED['bidet-ssd300-voc']
WIDTH = 4
THRESHOLD = 0.3
FLOAT32 = dict(atol=1e-5, rtol=1e-5)
FLOAT64 = dict(atol=1e-9, rtol=1e-9)


def config() -> Config:
    return Config.fromfile(ROOT / 'configs' / RELEASED.config)


def narrow_model():
    return MODELS.build(narrow(config()).model).eval()


@pytest.fixture(scope='module')
def published():
    state = {name: value.double() for name, value in drawn(shapes(WIDTH)).items()}
    return {name: value.long() if name.endswith('tracked') else value for name, value in state.items()}


@pytest.fixture(scope='module')
def model(published):
    """Ours with the imported weights, in float64, where no rounding turns a sign."""
    model = narrow_model().double()
    model.load_state_dict(tool.convert(published, RELEASED, model.state_dict()), strict=False)
    return model


@pytest.fixture(scope='module')
def images():
    return 60 * torch.randn(2, 3, 300, 300, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.fixture(scope='module')
def expected(published, images):
    return predictions(published, images)


@pytest.fixture(scope='module')
def found(model, images):
    """Class scores and boxes of each level."""
    with torch.no_grad():
        return model.bbox_head(model.extract_feat(images))


def by_anchor(levels, values: int) -> torch.Tensor:
    return torch.cat([level.permute(0, 2, 3, 1).reshape(len(level), -1, values) for level in levels], dim=1)


def assert_close_by_level(found, expected):
    """The first map alone is rounded to float32, in mmdet's L2 norm."""
    first = 38 * 38 * 4
    assert found.shape == expected.shape
    torch.testing.assert_close(found[:, :first], expected[:, :first], **FLOAT32)
    torch.testing.assert_close(found[:, first:], expected[:, first:], **FLOAT64)
    assert expected.std(dim=0).mean() > 1e-2  # images tell, so an agreement says something


def test_maps_are_those_of_the_released_network(published, images, model):
    theirs = maps(published, images)
    assert 0.1 < (theirs[1] == 0).double().mean() < 0.9  # whose signs are 0 in the released code
    with torch.no_grad():
        ours = model.extract_feat(images)
    torch.testing.assert_close(ours[0], theirs[0], **FLOAT32)
    for our, their in zip(ours[1:], theirs[1:], strict=True):
        torch.testing.assert_close(our, their, **FLOAT64)


def test_first_extra_layer_sees_zeros_and_ones(published, images, model):
    x = maps(published, images)[1]
    theirs = norm(published, 'extra_bns.0', binary(published, 'extras.0', x))
    with torch.no_grad():
        torch.testing.assert_close(model.neck.extra_layers[0][0](x), theirs, **FLOAT64)


def test_class_scores_and_means_of_each_anchor(found, expected):
    box, score = expected
    assert_close_by_level(by_anchor(found[0], CLASSES), score.roll(-1, dims=2))
    assert_close_by_level(by_anchor(found[1], 4), box[..., 4:])


def test_log_variances_of_each_anchor(model, images, expected):
    with torch.no_grad():
        levels = [
            branch(x).chunk(2, 1)[1]
            for branch, x in zip(model.bbox_head.reg_convs, model.extract_feat(images), strict=True)
        ]
    assert_close_by_level(by_anchor(levels, 4), expected[0][..., :4])


def test_prior_boxes_and_their_order(model):
    grid = model.bbox_head.prior_generator.grid_priors([(n, n) for n in (38, 19, 10, 5, 3, 1)], device='cpu')
    start, end = torch.cat(grid).double().chunk(2, dim=1)
    torch.testing.assert_close(torch.cat([start + end, 2 * (end - start)], dim=1) / 600, prior_boxes(), **FLOAT32)


def test_detections_begin_with_the_released_ones(model, found, expected):
    """All of them, in their order; the released code looks at 200 candidates of a class, ours at all."""
    cfg = model.bbox_head.test_cfg
    assert (cfg.score_thr, cfg.nms.iou_threshold, cfg.max_per_img) == (0.01, 0.45, 200 * 20)
    metas = [dict(img_shape=(300, 300), scale_factor=(0.5, 0.75))] * 2
    levels = [[level.float() for level in part] for part in found]
    faster = {**cfg, 'score_thr': THRESHOLD}
    results = model.bbox_head.predict_by_feat(*levels, batch_img_metas=metas, cfg=type(cfg)(faster), rescale=True)
    counts = []
    for ours, box, score in zip(results, *expected, strict=True):
        theirs = detections(decoded(box[:, 4:]), score.softmax(dim=1), THRESHOLD)
        for label, wanted in enumerate(theirs):
            of_class = ours.labels == label
            scores, boxes = ours.scores[of_class][: len(wanted)], ours.bboxes[of_class][: len(wanted)]
            torch.testing.assert_close(scores.double(), wanted[:, 0], **FLOAT32)
            in_pixels = wanted[:, 1:] * torch.tensor([600, 400, 600, 400])
            torch.testing.assert_close(boxes.double(), in_pixels, atol=2e-3, rtol=1e-5)
            counts.append(len(wanted))
            assert len(wanted) < 200
    assert sum(counts) > 200 and sum(count > 0 for count in counts) > 10


def test_image_is_resized_and_its_mean_taken_away_as_in_the_released_code(tmp_path):
    cfg = config()
    image = np.random.default_rng(0).integers(0, 256, (90, 140, 3), np.uint8)
    mmcv.imwrite(image, str(tmp_path / 'image.png'))
    pipeline = [step for step in cfg.test_dataloader.dataset.pipeline if step.type != 'LoadAnnotations']
    sample = Compose([TRANSFORMS.build(step) for step in pipeline])(
        dict(img_path=str(tmp_path / 'image.png'), img_id=0)
    )
    preprocessor = MODELS.build(cfg.model.data_preprocessor)
    ours = preprocessor(dict(inputs=[sample['inputs']], data_samples=[sample['data_samples']]))['inputs'][0]
    resized = cv2.resize(image, (300, 300)).astype(np.float32) - np.float32([104, 117, 123])
    torch.testing.assert_close(ours, torch.from_numpy(resized[:, :, ::-1].copy()).permute(2, 0, 1))


@pytest.mark.slow
def test_packed_graph_finds_what_the_imported_model_finds(published, images):
    model = narrow_model()
    state = {name: value.float() if value.is_floating_point() else value for name, value in published.items()}
    model.load_state_dict(tool.convert(state, RELEASED, model.state_dict()), strict=False)
    model.bbox_head.test_cfg.score_thr = THRESHOLD
    x = images[:1].float()
    wanted = predicted(model, x, (300, 300))
    assert len(wanted[0]) > 100
    result = agreement(wanted, tuple(run(detector_graph(pack(model).model), image=x, valid_size=np.array([300, 300]))))
    assert result.same, result
    assert wanted[0].min() < 0 and wanted[0].max() > 300  # as released, boxes leave the image


def test_every_parameter_finds_its_place(published, tmp_path):
    model = narrow_model()
    ours = tool.convert(published, RELEASED, model.state_dict())
    assert ours.keys() == {key for key in model.state_dict() if not key.startswith('data_preprocessor')}
    torch.save(dict(state_dict=ours), tmp_path / 'ours.pth')
    assert refusal(check_checkpoint, model, str(tmp_path / 'ours.pth')) is None
    unchanged = published['vgg.layers.14.downsample.1.weight']
    assert torch.equal(ours['backbone.pool4.downsample.0.weight'], unchanged)
    assert torch.equal(published['vgg.layers.22.bias'], drawn(shapes(WIDTH))['vgg.layers.22.bias'].double())


def test_final_file_and_one_from_within_training(published, tmp_path):
    for content in (published, dict(weight=published, opt=dict(state={}, param_groups=[]))):
        torch.save(content, tmp_path / 'theirs.pth')
        assert tool.read_published(tmp_path / 'theirs.pth').keys() == published.keys()


@pytest.mark.slow
def test_command_at_full_width(tmp_path):
    torch.save({name: torch.ones(shape) for name, shape in shapes()}, tmp_path / 'theirs.pth')
    done = run_script(TOOL, 'bidet-ssd300-voc', tmp_path / 'theirs.pth', tmp_path / 'ours.pth')
    assert 'its config is configs/released/ssd300_vgg16_bidet_voc.py' in done.stdout, done.stderr


class TestRefused:
    """Each in one sentence."""

    @pytest.mark.parametrize(
        ('classes', 'outputs'), [(81, 324), (20, 80), (22, 88)], ids=['COCO', 'no background', 'one more']
    )
    def test_other_classes(self, classes, outputs):
        other = drawn(shapes(WIDTH, classes))
        message = rf"^'conf.0.weight' has the shape \({outputs}, 32, 3, 3\) where \(84, 32, 3, 3\) is expected\.$"
        with pytest.raises(ValueError, match=message):
            tool.convert(other, RELEASED, narrow_model().state_dict())

    @pytest.mark.parametrize(
        ('missing', 'becomes'),
        [
            ('vgg.layers.22.bias', 'backbone.conv7.conv.bias'),
            ('extra_bns.3.running_var', 'neck.extra_layers.1.1.bn.running_var'),
            ('L2Norm.weight', 'neck.l2_norm.weight'),
        ],
    )
    def test_a_missing_parameter(self, published, missing, becomes):
        less = {name: value for name, value in published.items() if name != missing}
        with pytest.raises(ValueError, match=rf"^what becomes '{re.escape(becomes)}' is missing\.$"):
            tool.convert(less, RELEASED, narrow_model().state_dict())

    def test_a_bias_of_another_length(self, published):
        with pytest.raises(ValueError, match=r"^'vgg.layers.22.bias' has the shape \(3,\) where \(64,\) is expected"):
            tool.convert({**published, 'vgg.layers.22.bias': torch.ones(3)}, RELEASED, narrow_model().state_dict())

    def test_its_backbone_alone_and_other_ssds(self, published):
        wanted = narrow_model().state_dict()
        for change in (lambda name: name.removeprefix('vgg.layers.'), lambda name: name.replace('vgg.layers', 'vgg')):
            other = {change(name): value for name, value in published.items()}
            with pytest.raises(ValueError, match=r"^'[\w.]+' is not a parameter of this network, nor are \d+ more\.$"):
                tool.convert(other, RELEASED, wanted)
