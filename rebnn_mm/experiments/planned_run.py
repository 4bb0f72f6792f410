"""One training run of an experiment: what it is, by which key its record is found, which config it trains."""

import copy
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mmengine.config import Config

KEY_LENGTH = 10


@dataclass(frozen=True)
class PlannedRun:
    """A config with overrides, a seed and a budget.

    Attributes:
        name: short name, also the beginning of the record's file name.
        label: what tables call it.
        config: config file, relative to the root of the project.
        options: overrides, as ``--cfg-options`` has them.
        budget: overrides that say how long training is and on how much data.
        hooks: hooks added behind those of the config; they come last, so they see what the method's hook has done.
        seed: of ``randomness.seed``.
        score: name of the score that counts, as the evaluator writes it.
        start: run whose last weights this one starts from, None for the config's own start.
        test: overrides for the test after training, as ``--cfg-options`` has them; None for no test. They do not
            change what is trained, so they are not part of the key.

    Example:
        >>> run = PlannedRun('bnn', 'BNN', 'bnn.py', {}, {'train_cfg.max_epochs': 2}, [], 0, 'accuracy/top1')
        >>> run.stem
        'bnn_seed0_93cb86bb8f'
    """

    name: str
    label: str
    config: str
    options: dict[str, Any]
    budget: dict[str, Any]
    hooks: list[dict[str, Any]]
    seed: int
    score: str
    start: 'PlannedRun | None' = field(default=None)
    test: dict[str, Any] | None = field(default=None)

    @property
    def definition(self) -> dict[str, Any]:
        """All that decides what the run computes, beside the code. Names and labels are not part of it."""
        return dict(
            config=self.config,
            options=self.options,
            budget=self.budget,
            hooks=self.hooks,
            seed=self.seed,
            start=self.start.key if self.start else None,
        )

    @property
    def key(self) -> str:
        """The same for the same definition, whatever list the run is in."""
        text = json.dumps(self.definition, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:KEY_LENGTH]

    @property
    def stem(self) -> str:
        """Name of its record and of its work dir."""
        return f'{self.name}_seed{self.seed}_{self.key}'

    @property
    def epochs(self) -> int | None:
        """Length of training, where the budget says so."""
        return self.budget.get('train_cfg.max_epochs')

    def build_config(self, root: Path, start: Path | None = None) -> Config:
        """The config with everything applied.

        Args:
            root: root of the project.
            start: checkpoint of the run it starts from.

        Raises:
            ValueError: the config lacks an entry that an override goes into.
        """
        cfg = Config.fromfile(root / self.config)
        self._merge(cfg, {**self.options, **self.budget})
        cfg.merge_from_dict({'randomness.seed': self.seed})
        cfg.custom_hooks = [*(cfg.get('custom_hooks') or []), *copy.deepcopy(self.hooks)]
        if start is not None:
            cfg.load_from = str(start)
        return cfg

    def build_test_config(self, root: Path) -> Config:
        """The config with which the trained weights are scored.

        Raises:
            ValueError: the config lacks an entry that an override goes into.
        """
        cfg = self.build_config(root)
        self._merge(cfg, self.test or {})
        return cfg

    def _merge(self, cfg: Config, overrides: dict[str, Any]) -> None:
        content = cfg.to_dict()
        for key in overrides:
            parent: Any = content
            *path, _ = key.split('.')
            for part in path:
                if isinstance(parent, list):
                    parent = dict(enumerate(parent)).get(int(part)) if part.isdigit() else None
                else:
                    parent = parent.get(part) if isinstance(parent, dict) else None
                if parent is None:
                    raise ValueError(
                        f'run {self.name!r}: {self.config} has no entry {".".join(path)!r}, so {key!r} would change '
                        'nothing. Correct the key in options, budget or test.'
                    )
        # A copy, because merging takes `_delete_` out of what it merges, and the key must not change.
        cfg.merge_from_dict(copy.deepcopy(overrides))
