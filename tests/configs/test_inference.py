"""From training to inference: what a checkpoint holds is enough to use the detector elsewhere."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

pytest.importorskip('mmdet')

from mmdet.apis import DetInferencer, inference_detector, init_detector

SAMPLE = Path(__file__).parents[2] / 'demo' / 'coco_sample'


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """The main detector, trained for two steps on two images of the sample and scored on them."""
    folder = tmp_path_factory.mktemp('trained')
    cfg = Config.fromfile(SAMPLE.parents[1] / 'configs' / 'overfit' / 'faster_rcnn_r18_rebnn_overfit.py')
    cfg.work_dir = str(folder)
    for loader in (cfg.train_dataloader, cfg.val_dataloader, cfg.test_dataloader):
        loader.dataset.update(data_root=str(SAMPLE), indices=[1, 9])
        loader.update(num_workers=0, persistent_workers=False)
        (resize,) = (step for step in loader.dataset.pipeline if step.type == 'Resize')
        resize.scale = (128, 128)
    cfg.train_dataloader.batch_size = 2
    cfg.train_cfg.update(max_iters=2, val_interval=2)
    cfg.default_hooks.checkpoint.interval = 2
    cfg.model.train_cfg.rcnn.sampler.num = 32
    cfg.model.test_cfg.rpn.max_per_img = 50
    # Two steps give no score worth a threshold.
    cfg.model.test_cfg.rcnn.score_thr = 0.0
    runner = Runner.from_cfg(cfg)
    runner.train()
    return runner, folder / 'iter_2.pth'


@pytest.fixture
def image() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)


def test_boxes_are_resized_with_the_training_image(trained):
    runner, _ = trained
    dataset = runner.train_dataloader.dataset
    for index in range(len(dataset)):
        sample = dataset[index]['data_samples']
        boxes = sample.gt_instances.bboxes.tensor
        wanted = [instance['bbox'] for instance in dataset.get_data_info(index)['instances']]
        factor = torch.tensor(sample.scale_factor).repeat(2)
        torch.testing.assert_close(boxes, torch.tensor(wanted) * factor, rtol=0, atol=1.0)  # clipped at the border


def test_run_ends_with_coco_scores_and_a_checkpoint(trained):
    runner, checkpoint = trained
    score = runner.message_hub.get_scalar('val/coco/bbox_mAP_50').current()
    assert 0 <= score <= 1
    assert checkpoint.is_file()


def test_checkpoint_alone_gives_the_trained_detector(trained, image):
    runner, checkpoint = trained
    inferencer = DetInferencer(weights=str(checkpoint), device='cpu', show_progress=False)
    state = runner.model.state_dict()
    loaded = inferencer.model.state_dict()
    assert loaded.keys() == state.keys()
    assert all(torch.equal(loaded[key], value) for key, value in state.items())

    (found,) = inferencer(image, return_datasamples=True)['predictions']
    runner.model.cfg = runner.cfg  # where mmdet's inference looks for the pipeline
    again = inference_detector(runner.model.eval(), image)
    assert len(found.pred_instances) > 0
    assert torch.equal(found.pred_instances.bboxes, again.pred_instances.bboxes)
    assert torch.equal(found.pred_instances.scores, again.pred_instances.scores)


def test_init_detector_takes_the_embedded_config(trained, image):
    runner, checkpoint = trained
    text = torch.load(checkpoint, map_location='cpu', weights_only=False)['meta']['cfg']
    model = init_detector(Config.fromstring(text, '.py'), str(checkpoint), device='cpu')
    assert model.dataset_meta['classes'] == runner.val_dataloader.dataset.metainfo['classes']
    assert len(inference_detector(model, image).pred_instances) > 0


def test_image_file_is_drawn_and_its_boxes_are_saved(trained, tmp_path):
    _, checkpoint = trained
    name = sorted((SAMPLE / 'val2017').glob('*.jpg'))[0]
    shutil.copy(name, tmp_path)
    inferencer = DetInferencer(weights=str(checkpoint), device='cpu', show_progress=False)
    inferencer(str(tmp_path / name.name), out_dir=str(tmp_path / 'out'), pred_score_thr=0.0, no_save_pred=False)
    assert (tmp_path / 'out' / 'vis' / name.name).is_file()
    assert (tmp_path / 'out' / 'preds' / f'{name.stem}.json').is_file()
