"""A real mmengine Runner around a small binary classifier on fixed data."""

import torch
from mmengine.dataset import pseudo_collate
from mmengine.hooks import Hook
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch import nn
from torch.utils.data import Dataset

from rebnn_mm.methods import ReBNNConv2d


class Images(Dataset):
    """Sixteen fixed images with labels."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.images = torch.randn(16, 3, 8, 8, generator=generator)
        self.labels = torch.randint(0, 3, (16,), generator=generator)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return {'inputs': self.images[index], 'labels': self.labels[index]}


class SmallClassifier(BaseModel):
    """Stem, ReLU, two binary convolutions (the first one right after the ReLU), linear head."""

    def __init__(self, layer=ReBNNConv2d, **options):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.conv1 = layer(8, 8, 3, padding=1, bias=False, **options)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = layer(8, 8, 3, padding=1, bias=False, **options)
        self.bn2 = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 3)

    def forward(self, inputs, labels, mode='tensor'):
        x = torch.stack(inputs) if isinstance(inputs, list) else inputs
        x = torch.relu(self.bn1(self.conv1(torch.relu(self.stem(x)))))
        scores = self.head(self.bn2(self.conv2(x)).mean(dim=(2, 3)))
        if mode == 'loss':
            labels = torch.stack(labels) if isinstance(labels, list) else labels
            return {'loss': nn.functional.cross_entropy(scores, labels)}
        return scores


def runner_config(work_dir, epochs=2, hook='ReBNNHook', constructor=True, optim_wrapper=None, **more):
    """Arguments of a Runner that trains :class:`SmallClassifier` for some epochs of four iterations."""
    optim_wrapper = optim_wrapper or {'optimizer': {'type': 'SGD', 'lr': 0.05, 'momentum': 0.9, 'weight_decay': 1e-4}}
    if constructor:
        optim_wrapper = {'constructor': 'BinaryOptimWrapperConstructor', **optim_wrapper}
    return {
        'work_dir': str(work_dir),
        'train_dataloader': {
            'batch_size': 4,
            'num_workers': 0,
            'dataset': Images(),
            'sampler': {'type': 'DefaultSampler', 'shuffle': True},
            'collate_fn': pseudo_collate,
        },
        'train_cfg': {'by_epoch': True, 'max_epochs': epochs},
        'optim_wrapper': optim_wrapper,
        'custom_hooks': [{'type': hook}] if isinstance(hook, str) else [hook] if hook else [],
        'default_hooks': {
            'logger': {'type': 'LoggerHook', 'interval': 2},
            'checkpoint': {'type': 'CheckpointHook', 'interval': 1},
        },
        'default_scope': 'mmengine',
        'randomness': {'seed': 1},
        'log_level': 'INFO',
        # mmengine gives runs of one name in one second the same logger.
        'experiment_name': f'{work_dir.parent.name}_{work_dir.name}',
        **more,
    }


class StopAfter(Hook):
    """Ends a run after some epochs, as a kill would, while its schedules know of more."""

    def __init__(self, epochs):
        self.epochs = epochs

    def after_train_epoch(self, runner):
        if runner.epoch + 1 == self.epochs:
            runner.train_loop.stop_training = True


def trained(work_dir, model=None, stop_after=None, **options):
    """Train and give the runner back."""
    torch.manual_seed(0)
    runner = Runner(model=model or SmallClassifier(), **runner_config(work_dir, **options))
    if stop_after:
        runner.register_hook(StopAfter(stop_after), 'LOWEST')
    runner.train()
    return runner


def log_text(work_dir):
    """What the run wrote into its log file."""
    return '\n'.join(path.read_text() for path in sorted(work_dir.glob('*/*.log')))
