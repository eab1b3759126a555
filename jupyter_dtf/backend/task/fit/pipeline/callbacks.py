"""The first and the last callback of a pipelined ``fit``. Between them, the model has the devices' state."""

from __future__ import annotations

from typing import Any

from .....errors import InvalidInput
from ..batch_hooks import modules_of_batch_hooks
from ..callbacks import First, Last, State
from ..job import FitJob
from .engine import Engine


class Down(First):
    """The callback that runs before the caller's callbacks (``own``), and fetches the current weights for them."""

    def __init__(self, state: State, engine: Engine, own: list[Any]) -> None:
        super().__init__(state, bool(own))
        self._engine = engine
        self._fetches = bool(own)
        self._each_step = _look_at_steps(own)

    def _begin(self, may_change_weights: bool = False) -> None:
        super()._begin(may_change_weights)
        if self._fetches:
            self._engine.fetch()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_end(batch, logs)
        if self._each_step:
            self._engine.fetch_all()

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self._state.metrics.alone = True


class Up(Last):
    """The callback that runs after the caller's callbacks (``own``), and loads their changes into the devices."""

    def __init__(
        self,
        state: State,
        job: FitJob,
        ctx: Any,
        steps: int | None,
        *,
        engine: Engine,
        own: list[Any],
        trained: list[Any],
        done: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(state, job, ctx, steps, counts=lambda: engine.counts, done=done)
        self._engine = engine
        self._loads = bool(own)
        self._trained = [id(weight) for weight in trained]
        self._each_step = _look_at_steps(own)

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        self._refuse_other_weights()
        self._engine.load()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_begin(epoch, logs)
        if self._is_first:
            self._refuse_other_weights()
        self._load()

    def _refuse_other_weights(self) -> None:
        """Raise InvalidInput if callbacks have frozen or unfrozen weights, which Keras follows until its first step."""
        if [id(weight) for weight in self.model.trainable_variables] != self._trained:
            raise InvalidInput(
                "`callbacks` must not change which weights are trainable before the first step of a pipeline, which "
                "has prepared its devices for them, got other trainable weights. Set `trainable` before compile()",
                field="callbacks",
            )

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_begin(batch, logs)
        if self._each_step:
            self._load()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_end(batch, logs)
        if self._each_step:
            self._load()
            self._engine.load_metrics()

    def on_test_begin(self, logs: Any = None) -> None:
        super().on_test_begin(logs)
        self._load()

    def on_test_end(self, logs: Any = None) -> None:
        super().on_test_end(logs)
        self._load()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_end(epoch, logs)
        self._load()

    def _load(self) -> None:
        if self._loads:
            self._engine.load()


def _look_at_steps(callbacks: list[Any]) -> bool:
    """Return whether any callback of the caller, including Keras's own classes, has a hook that runs in each step."""
    return any(map(modules_of_batch_hooks, callbacks))
