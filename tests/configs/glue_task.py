"""A synthetic task of token counting, and a Runner that trains a method of the GLUE table on it."""

from pathlib import Path

import torch
from mmengine.config import Config
from mmengine.hooks import Hook
from mmengine.runner import Runner
from mmengine.structures import BaseDataElement
from torch.utils.data import Dataset

METHODS = Path(__file__).parents[2] / 'configs/glue'
LENGTHS = (6, 14)


class Counting(Dataset):
    """Sentences of random tokens; the label says whether the first half of the vocabulary is in the majority."""

    def __init__(self, count=512, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.items = []
        for index in range(count):
            # An odd number of words, so that there is a majority.
            length = int(torch.randint(*LENGTHS, (1,), generator=generator)) // 2 * 2 + 1
            share = 0.2 + 0.6 * float(torch.rand(1, generator=generator))
            first = torch.rand(length, generator=generator) < share
            words = torch.randint(10, 40, (length,), generator=generator) + 40 * ~first
            tokens = torch.cat([torch.tensor([2]), words, torch.tensor([3])])
            sample = BaseDataElement(metainfo=dict(sample_idx=index, split='train'))
            sample.gt_label = torch.tensor(int(first.sum() * 2 > length))
            inputs = dict(input_ids=tokens, attention_mask=torch.ones_like(tokens))
            padding = dict(input_ids=0, attention_mask=0, side='right')
            self.items.append(dict(inputs=inputs, padding=padding, data_samples=sample))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Losses(Hook):
    """The total loss of every iteration."""

    def __init__(self):
        self.values = []

    def after_train_iter(self, runner, batch_idx, data_batch=None, outputs=None):
        self.values.append(outputs['loss'].item())


def method_config(name, **model):
    """A method's config with another model."""
    cfg = Config.fromfile(METHODS / f'{name}.py')
    cfg.model.update(model)
    return cfg


def train(model, hooks, work_dir, steps, lr=5e-4, seed=0):
    """Train by mmengine's Runner; returns the model and the losses."""
    torch.manual_seed(seed)
    recorder = Losses()
    runner = Runner(
        model=model,
        work_dir=str(work_dir),
        train_dataloader=dict(
            batch_size=32,
            dataset=Counting(),
            sampler=dict(type='InfiniteSampler', shuffle=True, seed=seed),
            collate_fn=dict(type='glue_collate'),
        ),
        train_cfg=dict(by_epoch=False, max_iters=steps),
        optim_wrapper=dict(
            constructor='BinaryOptimWrapperConstructor',
            optimizer=dict(type='BertAdam', lr=lr, weight_decay=0.01, clip_norm=1.0),
        ),
        param_scheduler=dict(type='WarmupLinearLR', warmup=0.1, by_epoch=False),
        default_hooks=dict(logger=None, checkpoint=None, timer=None),
        custom_hooks=[*hooks, recorder],
        log_level='ERROR',
        default_scope='mmengine',
        experiment_name=f'{Path(work_dir).name}_{id(recorder)}',
    )
    return runner.train(), recorder.values


@torch.no_grad()
def accuracy(model, seed=1):
    """Share of right answers on sentences that were not trained on."""
    from rebnn_mm.datasets import glue_collate

    batch = glue_collate(Counting(512, seed).items)
    labels = torch.stack([sample.gt_label for sample in batch['data_samples']])
    return (model.eval()(batch['inputs']).argmax(1) == labels).float().mean().item()
