"""Data sets that OpenMMLab's libraries read only in part, in another form, or not at all."""

from .cifar10 import CIFAR10Archive, CIFAR10Resident
from .glue import GLUEDataset, glue_collate
from .glue_tasks import GLUE_TASKS, GLUETask, glue_task
from .length_grouped_sampler import LengthGroupedSampler
from .tensorflow_crop import TensorFlowCenterCrop
from .tokenize_text import TokenizeText

__all__ = [
    'GLUE_TASKS',
    'CIFAR10Archive',
    'CIFAR10Resident',
    'GLUEDataset',
    'GLUETask',
    'LengthGroupedSampler',
    'TensorFlowCenterCrop',
    'TokenizeText',
    'glue_collate',
    'glue_task',
]
