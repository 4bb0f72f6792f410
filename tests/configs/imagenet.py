"""Trains an ImageNet config for one iteration, on two random images, and looks at its predictions."""

from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.dataset import pseudo_collate
from mmengine.runner import Runner
from mmpretrain.structures import DataSample
from torch import nn
from torch.utils.data import DataLoader


def samples():
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=generator)
    return [
        dict(inputs=image, data_samples=DataSample().set_gt_label(label))
        for image, label in zip(images, (0, 999), strict=True)
    ]


def trained_one_step(cfg: Config, folder: Path) -> tuple[Runner, dict[str, float]]:
    """One iteration with the config's own model, optimizer and hooks, and the size of each weight's gradient in it."""
    runner = Runner(
        model=cfg.model,
        data_preprocessor=cfg.data_preprocessor,
        work_dir=str(folder),
        train_dataloader=DataLoader(samples(), batch_size=2, collate_fn=pseudo_collate),
        train_cfg=dict(by_epoch=True, max_epochs=1),
        optim_wrapper=cfg.optim_wrapper,
        custom_hooks=cfg.get('custom_hooks'),
        default_hooks=dict(checkpoint=None),
        default_scope='mmpretrain',
        experiment_name=folder.name,
        log_level='ERROR',
        randomness=dict(seed=0),
    )
    gradients: dict[str, float] = {}
    for name, layer in convolutions(runner.model).items():
        layer.weight.register_post_accumulate_grad_hook(
            lambda weight, name=name: gradients.update({name: weight.grad.abs().sum().item()})
        )
    runner.train()
    return runner, gradients


def convolutions(model: nn.Module) -> dict[str, nn.Conv2d]:
    return {name: m for name, m in model.named_modules() if isinstance(m, nn.Conv2d)}


def check_prediction(runner: Runner) -> None:
    with torch.no_grad():
        results = runner.model.eval().test_step(pseudo_collate(samples()))
    scores = torch.stack([result.pred_score for result in results])
    assert scores.shape == (2, 1000)
    torch.testing.assert_close(scores.sum(dim=1), torch.ones(2))
