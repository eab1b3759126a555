"""Saves and restores checkpoints of a training run whose model is on the chief, or can be copied to the chief.

The part of a checkpoint that TensorFlow writes holds the model's weights and the optimizers' variables. Everything else
is pickled: each task's state in the middle of an epoch, the states of random generators and callbacks, and the history.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

# Keras 3.15: the public accessor of the global seed generator creates a generator if there is none.
from keras.src.backend.common.global_state import get_global_attribute

# Keras 3.15: no other interface can save the state behind keras.utils.set_random_seed.
from keras.src.random.seed_generator import global_seed_generator

from ....schema.checkpoint import FORMAT, Manifest, StoredVariable
from ....schema.events import CONTINUES
from .. import time_accounts
from ..checkpoint import files
from ..checkpoint.places import directory_of
from ..checkpoint.save_state import saving
from ..checkpoint.shards import Contents, Owners, Sharded
from ..checkpoint.snapshots import Snapshots
from ..checkpoint.writer import Writer
from ..collectives.primitive import Reducer
from ..model import changed_attributes
from ..model.metrics_of import metric_variables
from ..model.model_state import held_variables, seed_states
from .batch_hooks import overrides
from .callback_pickles import Pickles
from .callbacks import Last, pickles_of
from .checkpoint_state import (
    Begin,
    FitState,
    Part,
    assign,
    attributes,
    data_of,
    give_attributes,
    variables_of,
)
from .job import FitJob
from .where_to_begin import restore_checkpoint

COST = 20
"""By default, the time between two checkpoints is at least this many times the duration of the last save."""


@dataclass
class Training:
    """The properties of a ``fit`` run on this task that checkpoints depend on.

    ``length``: the number of steps per epoch, if known. ``passes``: the number of steps per optimizer update; a
    checkpoint can be saved only after an update.
    """

    job: FitJob
    ctx: Any
    reducer: Reducer
    optimizers: Sequence[Any]
    own: Sequence[Any]
    """The caller's callbacks that run on this task."""
    history: Any
    length: int | None
    passes: int
    first_epoch: int
    """The epoch at which the training run began, before any of its checkpoints."""
    batch: Any
    """The structure of a batch, as in ``FitResult.batch``."""
    steps_of: Callable[[int], int] | None = None
    """See ``TaskData``."""
    fetch: Callable[[], None] = lambda: None
    """Copies weights that are trained elsewhere into the chief's model."""
    load: Callable[[], None] = lambda: None
    """Sends the chief's weights to the tasks that train them."""
    places: Callable[[], tuple[tuple[int, int, int], ...]] = lambda: ()
    """Returns ``FitState.places``, as of the last call to ``fetch``."""
    tasks: int | None = None
    """The number of tasks that train; None: the reducer's size."""
    attributes: changed_attributes.Values = field(default_factory=dict)
    """The attributes that the model had before training."""
    owners: Owners | None = None
    """The tasks that write the weights that they train themselves, if they can access the checkpoint directory. In that
    case, ``fetch`` is not called.
    """


def forget_from(epoch: int, logger: Any) -> None:
    """Remove the rows of ``epoch`` and later epochs from the file of a ``CSVLogger``, because these epochs will be
    repeated.
    """
    path = Path(logger.filename)
    try:
        with path.open(newline="") as file:
            rows = file.readlines()
    except OSError:  # no file yet
        return
    numbers = [row.split(logger.sep, 1)[0] for row in rows]
    kept = [row for row, number in zip(rows, numbers, strict=True) if not (number.isdecimal() and int(number) >= epoch)]
    if len(kept) < len(rows):
        with path.open("w", newline="") as file:
            file.writelines(kept)


class Resuming(keras.callbacks.Callback):
    """A callback that runs after the caller's callbacks and before ``Last``, and restores the state of the whole
    training run.

    If training resumes within an epoch, Keras tells the caller's callbacks again that the epoch begins. Whatever they
    then do to the model, to the optimizer and to their own attributes is undone, because the checkpoint contains it.

    ``has_lived``: whether the callbacks and the history have existed since training began, and therefore keep their
    state.
    """

    def __init__(
        self, training: Training, begin: Begin, stored: files.Stored | None, *, has_lived: bool = False
    ) -> None:
        super().__init__()
        self._has_lived = has_lived
        self._begin = begin
        self._stored = stored
        self._ctx = training.ctx
        self._reducer = training.reducer
        self._optimizers = training.optimizers
        self._packed = training.job.callbacks
        self._own = training.own
        self._history = training.history
        self._load = training.load
        self.before = _BeforeEpoch(self)
        """A callback that runs before those of the caller."""
        self._values: list[tuple[Any, Any]] | None = None
        for callback in () if has_lived else training.own:
            if isinstance(callback, keras.callbacks.CSVLogger):
                callback.append = True
                forget_from(begin.info.epoch, callback)

    def on_train_begin(self, logs: Any = None) -> None:
        begin, state = self._begin, self._begin.state
        if self._stored is not None:
            restore_checkpoint(begin, self._stored, self.model, self._optimizers)
            self._load()
            self._stored = None
        if not self._has_lived:
            self._give_attributes()
            self._history.history = {name: list(values) for name, values in state.history.items()}
            self._history.epoch = list(state.history_epochs)
        self.model._initial_epoch = begin.info.epoch
        if self._ctx.is_chief:
            told = state.told
            if begin.is_of_this_run:  # reported already, unless the chief was lost before it reported the last epoch
                is_between = bool(begin.of) and not begin.info.step_in_epoch
                told = [each for each in told[-1:] if is_between and each[0] + 1 == begin.info.epoch]
            for epoch, step, values in told:
                self._ctx.epoch_ended(epoch, step, values)
            where = f"epoch {begin.info.epoch + 1}"
            if begin.info.step_in_epoch:
                where += f", after {begin.info.step_in_epoch} of its steps"
            found = f"with the state of {begin.of}. No step is lost" if begin.of else begin.info.path
            joint = ", " if begin.of else ": "
            self._ctx.note("info", f"{CONTINUES} {begin.info.step}", f"From {where}{joint}{found}")

    def _give_attributes(self) -> None:
        """Give the caller's callbacks the attributes that they had when the checkpoint was written."""
        pickles = pickles_of(self._packed, self._ctx.is_chief, self.model, self._own)
        part = self._begin.part(self._reducer.rank, self._reducer.size)
        for callback, held in zip(self._own, part.callbacks, strict=False):
            give_attributes(callback, held, pickles)

    def remember(self, epoch: int) -> None:
        """Remember the model and the optimizer if ``epoch`` had begun before the checkpoint was written."""
        hears = any(overrides(callback, "on_epoch_begin") for callback in self._own)
        if hears and not self._has_lived and self._begin.info.step_in_epoch and epoch == self._begin.info.epoch:
            held = {id(v): v for v in self.model.variables}
            for optimizer in self._optimizers:
                rate = getattr(optimizer, "learning_rate", None)
                rates = [rate] if isinstance(rate, keras.Variable) else []
                held |= {id(v): v for v in [*optimizer.variables, *rates]}
            self._values = [(variable, variable.numpy()) for variable in held.values()]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        values, self._values = self._values, None
        if values is None:
            return
        for variable, value in values:
            variable.assign(value)
        self._give_attributes()


class _BeforeEpoch(keras.callbacks.Callback):
    def __init__(self, resuming: Resuming) -> None:
        super().__init__()
        self._resuming = resuming

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._resuming.remember(epoch)


class Saving(keras.callbacks.Callback):
    """A callback that runs after ``Last``, writes checkpoints when they are due, and restores the task's own state.

    No checkpoints are written if the job's ``checkpoint`` is None. ``sync``: a GradientSync or an object with the same
    interface.
    """

    def __init__(self, training: Training, begin: Begin | None, sync: Any, last: Last) -> None:
        super().__init__()
        self._policy = policy = training.job.checkpoint
        self._begin = begin
        self._job = training.job
        self._ctx = ctx = training.ctx
        self._reducer = training.reducer
        self._sync = sync
        self._optimizers = training.optimizers
        self._own = training.own
        self._history = training.history
        self._last = last
        self._length = training.length
        self._steps_of = training.steps_of
        self._passes = training.passes
        self._first_epoch = training.first_epoch
        self._batch = training.batch
        self._fetch = training.fetch
        self._load = training.load
        self._places = training.places
        self._tasks = training.tasks or training.reducer.size
        self._owners = training.owners
        self._attributes = training.attributes
        self._is_shared: bool | None = None
        self._told = list(begin.state.told) if begin is not None else []
        self._epoch = 0
        self._seen = begin.info.step if begin is not None else 0
        self._asks = 0
        self._is_due = False
        self._stopped_within = False
        self._begun = time.monotonic()
        self._took_s = 0.0
        self._warned_of_best = False
        self._is_default = policy is not None and policy.every_epochs is None and policy.after_epochs is not None
        self._snapshots = Snapshots()
        self._writer: Writer | None = None
        if policy is not None and training.reducer.rank == 0:
            self._writer = Writer(directory_of(policy, ctx), policy, ctx.checkpoint_saved, self._warn)

    def close(self) -> None:
        """Wait until the last checkpoint is written."""
        if self._writer is not None:
            self._writer.wait()

    # -- when to save ---------------------------------------------------------------------------------------------

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch
        begin, self._begin = self._begin, None
        if begin is not None and begin.info.epoch == epoch:
            self._give(begin.part(self._reducer.rank, self._reducer.size))
            if self._reducer.rank == 0:
                self._load()
            self._sync.begin_epoch(epoch, begin.info.step_in_epoch)
            self._last.go_on()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        policy = self._policy
        if policy is None:
            return
        before, self._seen = self._seen, self._last.step
        if policy.every_steps is not None and self._seen // policy.every_steps > before // policy.every_steps:
            self._is_due = True
        if self._is_asked_for(policy.every_seconds):
            self._is_due = True
        within = self._last.step_in_epoch
        if self._is_whole(within):
            return  # the end of the epoch is handled first
        if self._length is None and within % self.model.steps_per_execution:
            return  # the execution was cut short, because the data has ended
        if self.model.stop_training:
            self._stopped_within = True
            self._is_due = any(self._reducer.all_gather(bool(self._ctx.should_stop)))
        if self._is_due and within % self._passes == 0:
            self._save(self._epoch, within, is_last=self._stopped_within)

    def _is_whole(self, within: int) -> bool:
        """Return whether the epoch is known to have at most ``within`` steps."""
        length = self._length if self._steps_of is None else self._steps_of(self._epoch)
        return length is not None and within >= length

    def data_ended(self) -> None:
        """Handle the end of a stream, before metrics and callbacks are notified of the end of the epoch. A collective.

        If the stream ended because a stop was requested, training stops in the middle of the epoch.
        """
        within = self._last.step_in_epoch
        if self._policy is None or self._stopped_within or self._is_whole(within):
            return
        if any(self._reducer.all_gather(bool(self._ctx.should_stop))):
            self._stopped_within = self.model.stop_training = True
            if within % self._passes == 0:
                self._save(self._epoch, within, is_last=True)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        policy = self._policy
        if self._stopped_within:
            return
        values = {name: value for name, value in (logs or {}).items() if isinstance(value, float)}
        self._told.append((epoch, self._last.step, values))
        if policy is None:
            return
        every = policy.after_epochs
        is_last = bool(self.model.stop_training) or epoch + 1 >= self._job.epochs
        if not is_last and every is not None and (epoch + 1) % every == 0:
            self._is_due |= not self._is_default or self._is_cheap()
        if is_last or self._is_due:
            self._save(epoch + 1, 0, self._best(values), is_last)

    def _is_asked_for(self, every_s: float | None) -> bool:
        """Return whether a checkpoint is due because ``every_s`` seconds have passed on the chief or the cluster has
        requested one. If there are several tasks, all of them return True after the same step, one exchange later.
        """
        is_asked = False
        if self._reducer.rank == 0:
            is_time = every_s is not None and time.monotonic() - self._begun >= every_s
            is_asked = is_time or self._ctx.checkpoint_wanted.is_set()
        if self._reducer.size == 1:
            self._ctx.checkpoint_wanted.clear()
            return is_asked
        if is_asked and self._sync.checkpoints_asked == self._asks:
            self._ctx.checkpoint_wanted.clear()
            self._sync.ask_for_checkpoint()
        agreed: int = self._last.agreement.checkpoints
        is_agreed, self._asks = agreed > self._asks, agreed
        return is_agreed

    def _is_cheap(self) -> bool:
        """Return whether the chief estimates that another checkpoint would not delay training noticeably. A
        collective.
        """
        cheap = True
        if self._writer is not None:
            took_s = max(self._took_s, self._writer.last_s)
            cheap = not self._writer.is_busy and time.monotonic() - self._begun >= COST * took_s
        return bool(self._reducer.broadcast([np.asarray(cheap)])[0])

    def _best(self, values: dict[str, float]) -> float | None:
        name = self._policy.best if self._policy is not None else None
        if name is None:
            return None
        if name not in values and not self._warned_of_best:
            self._warned_of_best = True
            if self._ctx.is_chief:
                there = ", ".join(values) or "none"
                self._ctx.note(
                    "warning", f"No best checkpoint: there is no metric {name}", f"Metrics of the epochs: {there}"
                )
        return values.get(name)

    # -- what to save ---------------------------------------------------------------------------------------------

    def _save(self, epoch: int, within: int, metric: float | None = None, is_last: bool = False) -> None:
        """Take a snapshot and start writing it. A collective."""
        with saving(), time_accounts.saving:
            self._take_and_write(epoch, within, metric, is_last)

    def _take_and_write(self, epoch: int, within: int, metric: float | None, is_last: bool) -> None:
        self._is_due = False
        self._begun = time.monotonic()
        if within:
            self._last.settle()
        if self._writer is not None:
            self._writer.wait()
            if (owners := self._writing_owners()) is not None:
                owners.take()
            else:
                self._fetch()
        self._write(self._last.step, epoch, within, metric, is_last)

    def _writing_owners(self) -> Owners | None:
        """Return the tasks that write the weights that they train, or None if the chief writes all weights, as it
        always does to remote storage.
        """
        if self._owners is not None and self._is_shared is None:
            assert self._policy is not None
            place = directory_of(self._policy, self._ctx)
            self._is_shared = isinstance(place, Path) and files.is_shared_with(self._owners, place)
        return self._owners if self._is_shared else None

    def _write(self, step: int, epoch: int, within: int, metric: float | None, is_last: bool) -> None:
        """Start writing the chief's model, the owners' snapshots and the states of all tasks. A collective."""
        parts = self._reducer.all_gather(self.part(bool(within)))
        if self._writer is None:
            return
        state = self.state(parts)
        manifest = Manifest(
            format=FORMAT,
            kind="fit",
            step=step,
            epoch=epoch,
            step_in_epoch=within,
            time=time.time(),
            run_id=self._ctx.run_id,
            strategy=self._job.strategy.name,
            tasks=self._tasks,
            metric=metric,
        )
        contents = self._contents()
        self._took_s = time.monotonic() - self._begun
        self._writer.write(manifest, contents, files.pickled(state), last=is_last)

    def _contents(self) -> Contents:
        variables, owners = variables_of(self.model, self._optimizers), self._writing_owners()
        if owners is None:
            return self._snapshots.take(variables)
        stored, own, keys = [], [], owners.keys
        for key, variable in variables:
            dtype = keras.backend.standardize_dtype(variable.dtype)
            stored.append(StoredVariable(key=key, shape=list(variable.shape), dtype=dtype))
            if key not in keys:
                own.append((key, variable))
        return Sharded(stored, self._snapshots.take(own), owners)

    def state(self, parts: list[Part]) -> FitState:
        """Return the state to pickle. ``parts``: the states of all tasks, in rank order."""
        return FitState(
            seed=self._job.seed,
            data=data_of(self._job),
            first_epoch=self._first_epoch,
            batch=self._batch,
            parts=parts,
            history=self._history.history,
            history_epochs=self._history.epoch,
            told=self._told,
            places=self._places(),
        )

    def _warn(self, title: str, text: str) -> None:
        self._ctx.note("warning", title, text)

    @property
    def callback_pickles(self) -> Pickles:
        """The pickler for the attributes of the task's callbacks."""
        return pickles_of(self._job.callbacks, self._ctx.is_chief, self.model, self._own)

    def part(self, is_within: bool) -> Part:
        """Return this task's own state. ``is_within``: whether the task is in the middle of an epoch."""
        generator = get_global_attribute("global_seed_generator")  # the public accessor would create a generator
        pickles = self.callback_pickles
        part = Part(
            seeds=[files.taken(state) for state in seed_states(self.model)],
            keras_seed=None if generator is None else files.taken(generator.state),
            numpy_random=np.random.get_state(),
            python_random=random.getstate(),
            callbacks=[attributes(callback, pickles) for callback in self._own],
            held=[files.taken(variable) for variable in held_variables(self.model, of_metrics=is_within)],
            attributes=changed_attributes.changes(self.model, self._attributes),
        )
        if is_within:
            part.moving = [files.taken(variable) for variable in self.model.non_trainable_weights]
            part.metrics = [files.taken(variable) for variable in metric_variables(self.model)]
        return part

    def _give(self, part: Part) -> None:
        assign(seed_states(self.model), part.seeds)
        if part.keras_seed is not None:
            assign([global_seed_generator().state], [part.keras_seed])
        if part.numpy_random is not None:
            np.random.set_state(part.numpy_random)
        if part.python_random is not None:
            random.setstate(part.python_random)
        if part.moving is not None:
            assign(self.model.non_trainable_weights, part.moving)
        if part.metrics is not None:
            assign(metric_variables(self.model), part.metrics)
        if part.attributes is not None:
            changed_attributes.give(self.model, part.attributes)
        if part.held is not None:
            assign(held_variables(self.model, of_metrics=part.metrics is not None), part.held)
