"""The first and last callbacks, metrics and weights of a task, adapted to parameter servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .....errors import InvalidInput
from ...model.changed_attributes import ChangedAttributes
from ...model.parts import Reference
from ..between_batches import BetweenBatches
from ..callbacks import First, Last, State
from ..equal_weights import Weights
from ..job import FitJob, PackedCallbacks
from ..steps import Metrics
from .messages import Place
from .server_client import Client
from .server_optimizer import Exchange
from .skipping import FollowTheRun


class ServedWeights(Weights):
    """The weights of synchronous tasks. Values that callbacks assign on the chief are sent to the servers first.

    ``slots``: the optimizer's variables, which only the servers use. ``push``: sends the chief's weights and slots to
    the servers. ``replace``: sends the values of the given variables to the servers. ``tell``: sends
    changed attributes of the optimizer to the servers.
    """

    held_elsewhere = True

    def __init__(
        self,
        variables: list[Any],
        slots: list[Any],
        reducer: Any,
        ctx: Any,
        push: Callable[[], None],
        *,
        replace: Callable[[list[Any]], None],
        tell: Callable[[dict[Reference, ChangedAttributes]], None],
    ) -> None:
        super().__init__(variables, reducer, ctx, slots)
        self._tell = tell
        self._push = push
        self._replace = replace

    def from_chief(self) -> None:
        if self.reducer.rank == 0:
            self._push()
        super().from_chief()

    def some_from_chief(self, positions: list[int]) -> None:
        # Do not send all of the chief's state: between batches, only the servers have the optimizer's state.
        self._replace([self.variables[position] for position in positions])
        super().some_from_chief(positions)

    def attributes_to_servers(self, changed: dict[Reference, ChangedAttributes]) -> None:
        self._tell(changed)


class OwnBetween(BetweenBatches):
    """Handles changes that callbacks make to weights between batches in an asynchronous task.

    Values of trained weights are sent to the servers; those of other weights stay on the chief.
    """

    def __init__(
        self, model: Any, weights: Weights, packed: PackedCallbacks, ctx: Any, replace: Callable[[list[Any]], None]
    ) -> None:
        super().__init__(model, weights, packed)
        self._is_needed = bool(packed) and not all(packed.everywhere) and bool(ctx.is_chief)
        self._acts = packed.between_batches
        self._ctx = ctx
        self._replace = replace
        self._has_warned = False

    def begin(self) -> None:
        self._assigned.clear()
        super().begin()

    def pause(self) -> None:
        self.settle()

    def settle(self) -> None:
        """Send the servers the values that callbacks have assigned to trained weights between batches."""
        if self._is_needed and self._acts and self._assigned:
            self._replace(self.assigned)
        self.warn()

    def warn(self) -> None:
        """Show a warning, once, if callbacks have set a weight that is not trained: no other task receives its value.

        Callbacks that restore all weights cause no warning.
        """
        self._watches = False
        kept = [variable for variable in self.assigned if not variable.trainable]
        if self._has_warned or not kept or self._ctx.size == 1 or len(self._assigned) == len(self._weights.variables):
            return
        self._has_warned = True
        self._ctx.note(
            "warning",
            f"{kept[0].path} is set on the chief alone",
            "A callback has set this weight, which is not trained. Asynchronous tasks have no common step, so the "
            "other tasks do not get its value, and train with their own. A callback with run_on_all_tasks = True sets "
            "it on every task",
        )


class ServedMetrics(Metrics):
    """The metrics of synchronous tasks. A single worker, too, has its weights on the servers at the end of an epoch."""

    def __call__(self, logs: Any) -> Any:
        if self._reducer.size == 1 and not self.alone and not self.validating:
            self._at_epoch_end()
        return super().__call__(logs)


class OwnMetrics(Metrics):
    """The metrics of a single asynchronous task. The task fetches the servers' variables before it validates."""

    def __call__(self, logs: Any) -> Any:
        if not self.alone and not self.validating:
            self._at_epoch_end()
        return self._original(logs)


class OwnFirst(First):
    """The first callback of an asynchronous task."""

    def __init__(self, state: State, watches_callbacks: bool) -> None:
        super().__init__(state, has_callbacks=False)
        self._compares = watches_callbacks

    def _begin(self, may_change_weights: bool = False) -> None:
        super()._begin(may_change_weights)
        self._state.between.begin()

    def on_train_begin(self, logs: Any = None) -> None:
        self._begin(may_change_weights=True)


class OwnLast(Last):
    """The last callback of an asynchronous task.

    Reports how stale the task's gradients are or how many were dropped, stops training when the servers request it, and
    sends the servers the changes that other callbacks have made.
    """

    def __init__(
        self,
        state: State,
        job: FitJob,
        ctx: Any,
        steps: int | None,
        *,
        client: Client,
        exchange: Exchange,
        between: OwnBetween,
        is_sync: bool,
        push: Callable[[], None] | None,
        following: FollowTheRun | None,
        begins: Place,
    ) -> None:
        """Create the callback.

        ``push``: sends the servers the changes that callbacks have made; None if there are no callbacks. ``begins``:
        the position at which this task starts.
        """
        super().__init__(state, job, ctx, steps, done=(begins.steps, begins.within))
        self.place = begins
        """The position of this task after its last finished step."""
        self._exchange = exchange
        self._between = between
        self._ends_within = False
        self._client = client
        self._is_sync = is_sync
        self._push = push
        self._following = following
        self.has_last_word = False
        """Whether callbacks changed the weights at the very end of training; if so, these weights are the result."""

    def on_train_begin(self, logs: Any = None) -> None:
        super().on_train_begin(logs)
        if (self.model._initial_epoch or self._job.initial_epoch) != self._job.initial_epoch:
            raise InvalidInput(
                "`callbacks` must not resume an asynchronous task (BackupAndRestore), got one that resumes at epoch "
                f"{self.model._initial_epoch}. Pass initial_epoch instead",
                field="callbacks",
            )
        self._tell()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        super().on_epoch_begin(epoch, logs)
        self._exchange.begin_epoch(epoch, self.step_in_epoch)
        self._tell()
        if self._following is not None:
            self._following.begin_epoch()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_begin(batch, logs)
        self._exchange.place = Place(self._epoch, self.step_in_epoch, self.step)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        super().on_train_batch_end(batch, logs)
        self.place = Place(self._epoch, self.step_in_epoch, self.step)
        is_last = self._steps is not None and self.step_in_epoch >= self._steps
        self._ends_within = bool(self.model.stop_training) and not is_last

    def _more_values(self) -> dict[str, float]:
        client = self._client
        return {"dropped": float(client.dropped)} if self._is_sync else {"staleness": client.answered.staleness}

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._following is not None:
            # The last steps may have been taken without this task.
            self._step = min(self._following.step, self._following.epoch_end)
        super().on_epoch_end(epoch, logs)
        if not self._ends_within:
            self.place = Place(epoch + 1, 0, self.step)
        self.has_last_word = self._tell()

    def _look_at_the_end(self, epoch: int) -> None:
        """Do nothing: other tasks take some of the steps, so this task's progress does not show the data's length."""

    def on_train_end(self, logs: Any = None) -> None:
        super().on_train_end(logs)
        self.has_last_word = self._tell() or (self.has_last_word and bool(self.model.stop_training))

    def _steps_done(self, batch: int) -> int:
        return super()._steps_done(batch) if self._following is None else self._following.step

    def _tell(self) -> bool:
        """Send the servers any changes that callbacks have made, and return whether there were any."""
        self._between.warn()
        if self._push is None or self._state.checksum == self._state.weights.checksum_with_copies():
            return False
        self._push()
        return True
