"""The mmengine hook that makes training resilient."""

from typing import Any

from mmengine.registry import HOOKS
from mmengine.runner import Runner

from ..errors import RebnnError
from .binary_hook import BinaryHook, has_epochs, logs_now, optim_wrappers, unwrap_model
from .optim_constructor import LATENT
from .resilient_gradient import ResilientGradient

CHECKPOINT_KEY = 'rebnn_counts'

SHARE_TO_WARN_AT = 0.1
"""A reconstruction term above this share of the task's gradient, over an interval of the log, is warned about."""

MASKED_TO_WARN_AT = 0.05
"""A layer with more than this share of its latent weights beyond 1 is warned about."""

STEPS_TO_MOVE_IN = 200
"""A layer without a flip in so many first steps is warned about."""


@HOOKS.register_module()
class ReBNNHook(BinaryHook):
    """Carries ReBNN through an mmengine run: ``custom_hooks=[dict(type='ReBNNHook')]``.

    It does all that :class:`BinaryHook` does and, for ReBNN layers, applies the reconstruction term and updates gamma
    around every optimizer step (:class:`rebnn_mm.engine.ResilientGradient`). Every ``interval`` iterations it logs the
    numbers of :meth:`ResilientGradient.statistics` under ``rebnn/``. It warns once each when the term drowns the
    task's gradient in a layer, when layers do not flip a sign early in training, and when latent weights have grown
    beyond where they get a gradient.

    Args:
        interval: iterations between two logged statistics; None takes the LoggerHook's.
        calibrate, schedule: see :class:`BinaryHook`.

    Raises:
        ValueError: the optimizer is one under which gamma would be wrong (fused with AMP, sharded parameters), or
            ``flip_window='epoch'`` is used with a loop that has no epochs.
    """

    def __init__(self, interval: int | None = None, calibrate: bool = True, schedule: str | None = None) -> None:
        super().__init__(calibrate, schedule)
        self.interval = interval
        self.resilient: ResilientGradient | None = None
        self._saved_counts: dict[str, Any] = {}
        self._warned: set[str] = set()

    def before_train(self, runner: Runner) -> None:
        super().before_train(runner)
        if self.driver is None:
            return
        self.resilient = ResilientGradient(unwrap_model(runner.model))
        if any(layer.quantizer.flip_window == 'epoch' for layer in self.resilient.layers) and not has_epochs(runner):
            raise RebnnError(
                "ReBNNHook: flip_window='epoch' needs a train loop with epochs (train_cfg by_epoch=True); give a "
                'number of steps instead.'
            )
        for wrapper in optim_wrappers(runner):
            self.resilient.attach(wrapper.optimizer)
        self.resilient.load_state_dict(self._saved_counts)
        self._saved_counts = {}  # another training of this hook is not resumed

    def compile_steps(self, **options: Any) -> None:
        if self.resilient is not None:
            self.resilient.compile(**options)

    def after_train_iter(self, runner: Runner, batch_idx: int, *args: Any, **kwargs: Any) -> None:
        if self.resilient is None or not logs_now(self, runner, batch_idx, self.interval):
            return
        for name, value in self.resilient.statistics().items():
            runner.message_hub.update_scalar(f'train/rebnn/{name}', value)
        self._warn_of_frozen_signs(runner, self.resilient)

    def _warn_of_frozen_signs(self, runner: Runner, resilient: ResilientGradient) -> None:
        name, share = max(resilient.term_shares.items(), key=lambda item: item[1], default=('', 0.0))
        if share > SHARE_TO_WARN_AT:
            self._warn_once(
                'share',
                f"the reconstruction term is {100 * share:.0f} % of the task's gradient in layer {name!r}, so signs "
                "stay where they are. Use gamma='adaptive' with max_share=0.01 (the default), or a smaller gamma.",
            )
        name, share = max(resilient.masked_shares.items(), key=lambda item: item[1], default=('', 0.0))
        if share > MASKED_TO_WARN_AT:
            self._warn_once(
                'masked',
                f'{100 * share:.0f} % of the latent weights of layer {name!r} have grown beyond 1, where they get no '
                'gradient of the task, so their signs stay. Lower the rate of latent weights, say to a fifth of what '
                'it is: optim_wrapper.paramwise_cfg=dict(roles=dict(latent_weight=dict(lr_mult=0.2))).',
            )
        unmoved = resilient.find_unmoved(STEPS_TO_MOVE_IN)
        if unmoved and _past_warm_up(runner):
            shown = ', '.join(unmoved[:3]) + (' and others' if len(unmoved) > 3 else '')
            self._warn_once(
                'unmoved',
                f'{len(unmoved)} of {len(resilient)} layers have not flipped a sign since training began ({shown}). '
                'Raise the rate of latent weights: optim_wrapper.paramwise_cfg=dict(roles=dict(latent_weight='
                'dict(lr_mult=10))); rebnn flips tells by how much.',
            )

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._warned:
            self._warned.add(what)
            self.warn(message)

    def after_train_epoch(self, runner: Runner) -> None:
        if self.resilient is not None:
            self.resilient.close_epoch()

    def after_train(self, runner: Runner) -> None:
        super().after_train(runner)
        if self.resilient is not None:
            self.resilient.detach()

    def before_save_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        if self.resilient is not None:
            checkpoint[CHECKPOINT_KEY] = self.resilient.state_dict()

    def after_load_checkpoint(self, runner: Runner, checkpoint: dict[str, Any]) -> None:
        if getattr(runner, '_resume', False):
            self._saved_counts = checkpoint.get(CHECKPOINT_KEY, {})


def _past_warm_up(runner: Runner) -> bool:
    """Whether latent weights train at half of their rate or more."""
    groups = [group for wrapper in optim_wrappers(runner) for group in wrapper.optimizer.param_groups]
    latent = [group for group in groups if group.get('role', LATENT) == LATENT]
    return any(group['lr'] >= 0.5 * group.get('initial_lr', group['lr']) for group in latent)
