"""Horovod's Keras callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import keras

from ...backend.task.collectives import ops
from ...backend.task.context import current
from ...errors import InvalidInput
from . import basics
from .collectives import broadcast_variables
from .report import Progress, numbers, step_of
from .synced_gradients import held


class BroadcastGlobalVariablesCallback(keras.callbacks.Callback):
    """Sends the root's weights and optimizer state to all tasks when training starts.

    This happens before the first batch if all tasks have built the model by then, otherwise after the first batch. The
    callback also reports the logs of every batch and the progress. ``device`` is accepted but ignored. Each task keeps
    its own values of ``local_variables``.
    """

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.broadcast_done = False
        self._asked = False
        self._local: set[int] = set()
        self._epoch = 0
        self._progress = Progress()
        for variable in _as_list(local_variables):
            self.register_local_var(variable)

    def register_local_var(self, variable: Any) -> None:
        """Let each task keep its own value of this variable."""
        self._local.add(id(held(variable)))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if not self._asked:
            self._asked = True
            if all(ops.allgather_object(bool(self.model.built))):
                self._broadcast()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._broadcast()
        values = {**numbers(logs), "learning_rate": float(self.model.optimizer.learning_rate)}
        current().report(step=step_of(self.model), **values)
        self._progress.batch_ended(self._epoch, batch, self.params)

    def _broadcast(self) -> None:
        if self.broadcast_done:
            return
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        shared = [v for v in self.model.variables if id(held(v)) not in self._local]
        broadcast_variables([*shared, *optimizer.variables], self.root_rank)
        self.broadcast_done = True


class MetricAverageCallback(keras.callbacks.Callback):
    """Averages an epoch's logs over the tasks, in place. Must precede callbacks that read the logs.

    The averages are also shown as the epoch's logs in the panel. ``device`` is accepted but ignored.
    """

    def __init__(self, device: str = "") -> None:
        super().__init__()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        logs = {} if logs is None else logs
        gathered = ops.allgather_object(numbers(logs))
        for rank, others in enumerate(gathered):
            if others.keys() != gathered[0].keys():
                raise InvalidInput(
                    "`logs` must have the same metrics on every task at the end of an epoch, got "
                    f"{sorted(gathered[0])} on rank 0, {sorted(others)} on rank {rank}"
                )
        for name in gathered[0]:
            logs[name] = sum(others[name] for others in gathered) / len(gathered)
        ctx, step = current(), step_of(self.model)
        validation = {name: logs[name] for name in gathered[0] if name.startswith("val_")}
        if validation and basics.rank() == 0:
            ctx.report(step=step, **validation)
        ctx.epoch_ended(epoch, step, numbers(logs))


class LearningRateScheduleCallback(keras.callbacks.Callback):
    """Sets the learning rate to ``initial_lr * multiplier(epoch)`` from ``start_epoch`` to ``end_epoch`` (exclusive).

    If ``multiplier`` is a number m, the factor is ``m ** (epoch - start_epoch)``. With ``staircase``, the rate changes
    at the first batch of each epoch, otherwise at every batch, with a fractional epoch. ``momentum_correction``
    multiplies the velocities of an optimizer with momentum by the ratio of the new rate to the old one (Goyal et al.
    2017, section 2.3). ``steps_per_epoch`` is optional if Keras knows the number of steps.
    """

    def __init__(
        self,
        initial_lr: float,
        multiplier: float | Callable[[float], float],
        start_epoch: int = 0,
        end_epoch: int | None = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise InvalidInput("`initial_lr` must be a number, got None", field="initial_lr")
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self.multiplier = multiplier if callable(multiplier) else _powers_of(multiplier, start_epoch)

    def on_train_begin(self, logs: Any = None) -> None:
        if not self.staircase and not self.steps_per_epoch:
            self.steps_per_epoch = self.params.get("steps")
            if not self.steps_per_epoch:
                raise InvalidInput(
                    f"The number of steps per epoch is unknown: pass steps_per_epoch to {type(self).__name__}",
                    field="steps_per_epoch",
                )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.current_epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if not self.staircase:
            assert self.steps_per_epoch is not None
            self._set(self.current_epoch + batch / self.steps_per_epoch)
        elif batch == 0:
            self._set(self.current_epoch)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate)

    def _set(self, epoch: float) -> None:
        optimizer = self.model.optimizer
        old, new = float(optimizer.learning_rate), self.initial_lr * self.multiplier(epoch)
        optimizer.learning_rate = new
        inner = getattr(optimizer, "inner_optimizer", optimizer)
        if self.momentum_correction and getattr(inner, "momentum", None) and inner.built and old not in (0, new):
            for velocity in inner.momentums if hasattr(inner, "momentums") else inner._momentums:
                velocity.assign(velocity * (new / old))


class LearningRateWarmupCallback(LearningRateScheduleCallback):
    """Increases the learning rate with every batch from ``initial_lr / size`` to ``initial_lr`` over ``warmup_epochs``.

    ``initial_lr`` is the scaled rate: the rate for training with a single task, times ``hvd.size()`` (Goyal et al.
    2017, section 2.2).
    """

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: int = 5,
        momentum_correction: bool = True,
        steps_per_epoch: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            initial_lr,
            self._share,
            end_epoch=warmup_epochs,
            staircase=False,
            momentum_correction=momentum_correction,
            steps_per_epoch=steps_per_epoch,
        )
        self.warmup_epochs = warmup_epochs
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_epoch_end(epoch, logs)
        if self.verbose and epoch == self.warmup_epochs - 1 and basics.rank() == 0:
            rate = float(self.model.optimizer.learning_rate)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")

    def _share(self, epoch: float) -> float:
        assert self.steps_per_epoch is not None
        epoch += 1 / self.steps_per_epoch  # the last batch of the warm-up has the full rate
        return (epoch * (basics.size() - 1) / self.warmup_epochs + 1) / basics.size()


def _powers_of(base: float, start_epoch: int) -> Callable[[float], float]:
    return lambda epoch: float(base ** (epoch - start_epoch))


def _as_list(variables: Any) -> list[Any]:
    if variables is None:
        return []
    return list(variables) if isinstance(variables, Iterable) and not hasattr(variables, "dtype") else [variables]
