"""The mmengine hook that lets a resumed run draw what the uninterrupted one would."""

from typing import Any

import numpy as np
from mmengine.dist import get_rank
from mmengine.hooks import Hook
from mmengine.registry import HOOKS
from mmengine.runner import Runner, set_random_seed


@HOOKS.register_module()
class IterSeedHook(Hook):
    """Seeds every random generator before each iteration, from the run's seed, the iteration and the process.

    mmengine's checkpoints hold no state of random generators, so dropout after ``--resume`` would differ from that of
    a run without a break. With this hook both runs are the same to the last bit, where the data come in the same order
    (``InfiniteSampler``) and the pipeline is not random.

    Example:
        >>> IterSeedHook.seed_of(42, iteration=7, rank=1) == IterSeedHook.seed_of(42, iteration=8, rank=0)
        False
    """

    # Before what other hooks may draw.
    priority = 'VERY_HIGH'

    @staticmethod
    def seed_of(seed: int, iteration: int, rank: int) -> int:
        """32 well mixed bits for one iteration of one process."""
        return int(np.random.SeedSequence((seed, iteration, rank)).generate_state(1)[0])

    def before_train_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None) -> None:
        set_random_seed(self.seed_of(runner.seed or 0, runner.iter, get_rank()))
