"""Data sets that OpenMMLab's libraries read only in part, in another form, or not at all."""

from .cifar10_archive import CIFAR10Archive
from .cifar10_resident import CIFAR10Resident
from .collate import glue_collate
from .glue import GLUEDataset
from .glue_tasks import GLUE_TASKS, GLUETask, glue_task
from .length_grouped_sampler import LengthGroupedSampler
from .transforms import TokenizeText

__all__ = [
    'GLUE_TASKS',
    'CIFAR10Archive',
    'CIFAR10Resident',
    'GLUEDataset',
    'GLUETask',
    'LengthGroupedSampler',
    'TokenizeText',
    'glue_collate',
    'glue_task',
]
