"""Checkpoints of a training of which the chief has the whole model, or can fetch it: what is in them, when, going on.

TensorFlow's part of a checkpoint has the model's weights and the optimizers' variables. All else is pickled: what each
task has for itself in the middle of an epoch, the states of random generators, of callbacks, and the history.
"""

from __future__ import annotations

import contextlib
import pickle
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import numpy as np
from keras.src.backend.common.global_state import get_global_attribute
from keras.src.random.seed_generator import global_seed_generator

from ....errors import InvalidInput, NotFound
from ....schema.checkpoint import FORMAT, CheckpointInfo, Manifest, StoredVariable
from ..checkpoint import files
from ..checkpoint.places import Place, at, directory_of, place_of
from ..checkpoint.saving import saving
from ..checkpoint.snapshots import Snapshots
from ..checkpoint.writer import Writer
from ..collectives.contract import Reducer
from ..model import keras_io
from ..model.model_state import layers_aside, seed_states
from .callbacks import Last
from .data import Skip
from .gradient_sync import optimizers_of
from .job import Arrays, FitJob
from .models import seed_of_task

COST = 20
"""By default the time between two checkpoints is so many times that which the last one took, or more."""
MOST_NAMED = 3


@dataclass
class Part:
    """What one task has for itself. The lists are in the model's order; None where all tasks have the same.

    Random states of a program are None where they are lost, and then begin anew.
    """

    seeds: list[Any]
    keras_seed: Any
    numpy_random: Any
    python_random: Any
    callbacks: list[bytes]
    moving: list[Any] | None = None
    metrics: list[Any] | None = None


@dataclass
class FitState:
    """What is pickled of a training."""

    seed: int
    """Of the job: what the order of the examples is drawn from."""
    data: dict[str, Any]
    """What a step in the middle of an epoch is counted by."""
    first_epoch: int
    """The epoch with which the training began."""
    batch: Any
    """As in ``FitResult``."""
    parts: list[Part]
    """By rank."""
    history: dict[str, list[float]]
    history_epochs: list[int]
    told: list[tuple[int, int, dict[str, float]]] = field(default_factory=list)
    """The epochs that have ended: number, step, values."""
    places: tuple[tuple[int, int, int], ...] = ()
    """By rank the epoch, the step in it, and the step of all epochs that each task is at, where tasks are apart. The
    checkpoint's own are then the chief's.
    """


@dataclass
class Begin:
    """Where a training goes on: what every task is told of a checkpoint."""

    info: CheckpointInfo
    variables: list[StoredVariable]
    state: FitState
    is_of_this_run: bool
    is_over: bool = False
    """Whether no step is left to do, for the tasks had agreed to stop."""
    of: str = ""
    """The task whose state this is, where it is no checkpoint's."""

    def part(self, rank: int, size: int) -> Part:
        """What is given to a task. Where there are others than there were, what they had for themselves is shared."""
        parts = self.state.parts
        if len(parts) == size:
            return parts[rank]
        chiefs, own = parts[0], parts[min(rank, len(parts) - 1)]
        return Part(
            seeds=[np.asarray(seed_of_task(seed, rank), np.asarray(seed).dtype) for seed in chiefs.seeds],
            keras_seed=own.keras_seed,
            numpy_random=own.numpy_random,
            python_random=own.python_random,
            callbacks=chiefs.callbacks if rank == 0 else [],
            moving=mean_of([part.moving for part in parts]),
            metrics=_total([part.metrics for part in parts], rank),
        )


def where_to_begin(job: FitJob, ctx: Any, reducer: Reducer) -> tuple[Begin | None, files.Stored | None]:
    """The checkpoint that a job goes on from, if it does, and on the chief its files. A collective.

    Raises InvalidInput or NotFound, on every task, for what is no checkpoint of a training.
    """
    again = job.checkpoint is not None and ctx.attempt > 1
    if not again and not _named(job, ctx):
        return None, None
    told: Any = None
    stored = None
    if reducer.rank == 0:
        try:
            stored = _find(job, ctx, again)
            told = None if stored is None else _read(stored, again)
        except (InvalidInput, NotFound, OSError) as error:
            told = type(error), str(error)
    told = reducer.all_gather(told)[0]
    if isinstance(told, tuple):
        kind, text = told
        raise kind(text)
    return told, stored


def _find(job: FitJob, ctx: Any, again: bool) -> files.Stored | None:
    if again:
        assert job.checkpoint is not None
        with contextlib.suppress(NotFound):
            return _newest(directory_of(job.checkpoint, ctx))
    named = _named(job, ctx)
    return _newest(place_of(named)) if named else None


def _named(job: FitJob, ctx: Any) -> str:
    """Where a training is to go on, by who has started the run, or by its program."""
    return str(ctx.goes_on_from or job.resume or "")


def _newest(place: Place) -> files.Stored:
    return at(place).newest(place)


def _read(stored: files.Stored, again: bool) -> Begin:
    if stored.manifest.kind != "fit":
        raise InvalidInput(
            f"A training goes on from a checkpoint of a training. Received: {stored.info.path}, of a "
            f"{stored.manifest.kind}",
            field="resume",
        )
    state = stored.state()
    if not isinstance(state, FitState):
        raise InvalidInput(
            f"A checkpoint of a training has its state. Received: {stored.info.path}, without", field="resume"
        )
    return Begin(stored.info, stored.manifest.variables, state, is_of_this_run=again)


def check_model(begin: Begin, model: Any, optimizers: Sequence[Any]) -> None:
    """Raise InvalidInput, naming what differs, unless a checkpoint is of such a model with such optimizers."""
    here = [
        (key, list(v.shape), keras.backend.standardize_dtype(v.dtype)) for key, v in variables_of(model, optimizers)
    ]
    there = [(stored.key, stored.shape, stored.dtype) for stored in begin.variables]
    differing = []
    for (key, shape, dtype), (their_key, their_shape, their_dtype) in zip(here, there, strict=False):
        if (_place(key), shape, dtype) != (_place(their_key), their_shape, their_dtype):
            differing.append(f"{_words(key, shape, dtype)} instead of {_words(their_key, their_shape, their_dtype)}")
    for kind, longer, shorter in (("more than it has", here, there), ("not here", there, here)):
        differing += [f"{_words(*variable)}, {kind}" for variable in longer[len(shorter) :]]
    if differing:
        more = f", and {len(differing) - MOST_NAMED} more" if len(differing) > MOST_NAMED else ""
        raise InvalidInput(
            f"A training goes on with the model and the optimizer that its checkpoint {begin.info.path} is of. "
            f"Received: {'; '.join(differing[:MOST_NAMED])}{more}",
            field="resume",
        )


def check_data(begin: Begin, job: FitJob, steps_per_execution: int) -> None:
    """Raise InvalidInput unless a step in the middle of an epoch means what it meant."""
    in_the_middle = begin.info.step_in_epoch or any(within for _, within, _ in begin.state.places)
    if not in_the_middle and job.steps_per_epoch is None:
        return
    there, here = begin.state.data, _data_of(job)
    if here != there:
        raise InvalidInput(
            f"In the middle of an epoch a training goes on with as many examples and as large batches. Received: "
            f"{here} instead of {there}",
            field="resume",
        )
    if (
        steps_per_execution > 1
        and job.steps_per_epoch
        and here.get("examples", 0) > job.steps_per_epoch * here.get("batch_size", 0)
    ):
        raise InvalidInput(
            "A training whose epochs are parts of the examples goes on with one step per execution. Received: "
            f"steps_per_execution={steps_per_execution}, steps_per_epoch={job.steps_per_epoch}",
            field="resume",
        )
    if begin.info.step_in_epoch % steps_per_execution:
        raise InvalidInput(
            f"steps_per_execution divides the steps of an epoch that are done: {begin.info.step_in_epoch}. Received: "
            f"{steps_per_execution}",
            field="resume",
        )


@dataclass
class Training:
    """A fit on its task, as far as checkpoints go. ``length``: steps of an epoch, where known. ``passes``: steps from
    one update to the next, between which nothing can be saved.
    """

    job: FitJob
    ctx: Any
    reducer: Reducer
    optimizers: Sequence[Any]
    own: Sequence[Any]
    """The caller's callbacks that run here."""
    history: Any
    length: int | None
    passes: int
    first_epoch: int
    """With which the training began, before all of its checkpoints."""
    batch: Any
    """As in ``FitResult``."""
    fetch: Callable[[], None] = lambda: None
    """Brings what is trained elsewhere into the chief's model."""
    load: Callable[[], None] = lambda: None
    """Gives what the chief's model holds to who trains it."""
    places: Callable[[], tuple[tuple[int, int, int], ...]] = lambda: ()
    """As in ``FitState``, of what was fetched last."""
    tasks: int | None = None
    """How many train; None: as many as the reducer knows of."""


def model_at(job: FitJob, path: str) -> Any:
    """The model of a job with the weights and the optimizer of a checkpoint. Raises InvalidInput, NotFound."""
    stored = _newest(place_of(path))
    begin = _read(stored, again=False)
    model = keras_io.unpack(job.model) if isinstance(job.model, keras_io.PackedModel) else job.model()
    keras_io.build(model, begin.state.batch)
    if isinstance(job.model, keras_io.PackedModel):
        keras_io.restore(model, job.model)
    optimizers = optimizers_of(model)
    check_model(begin, model, optimizers)
    restore(begin, stored, model, optimizers)
    return model


def restore(begin: Begin, stored: files.Stored, model: Any, optimizers: Sequence[Any]) -> None:
    """Give a model and its optimizers, which ``check_model`` has let pass, what a checkpoint has of them."""
    arrays = stored.arrays()
    keys = [variable.key for variable in begin.variables]
    for key, (_, variable) in zip(keys, variables_of(model, optimizers), strict=True):
        variable.assign(arrays[key])


_OF_THE_FILE = ("append", "append_header")
"""Attributes of a ``CSVLogger`` that say how the file is that it has found."""


def forget_from(epoch: int, logger: Any) -> None:
    """Take the rows of an epoch and of those after it out of what a ``CSVLogger`` has written: they come again."""
    path = Path(logger.filename)
    try:
        with path.open(newline="") as file:
            rows = file.readlines()
    except OSError:  # nothing yet
        return
    numbers = [row.split(logger.sep, 1)[0] for row in rows]
    kept = [row for row, number in zip(rows, numbers, strict=True) if not (number.isdecimal() and int(number) >= epoch)]
    if len(kept) < len(rows):
        with path.open("w", newline="") as file:
            file.writelines(kept)


class Resuming(keras.callbacks.Callback):
    """Runs after the caller's callbacks and before ``Last``: what the checkpoint has of the whole training.

    ``has_lived``: the callbacks and the history are those that were there all the time.
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
        self._own = training.own
        self._history = training.history
        self._load = training.load
        for callback in training.own:
            if isinstance(callback, keras.callbacks.CSVLogger):
                callback.append = True
                forget_from(begin.info.epoch, callback)

    def on_train_begin(self, logs: Any = None) -> None:
        begin, state = self._begin, self._begin.state
        part = begin.part(self._reducer.rank, self._reducer.size)
        if self._stored is not None:
            restore(begin, self._stored, self.model, self._optimizers)
            self._load()
            self._stored = None
        if not self._has_lived:
            for callback, attributes in zip(self._own, part.callbacks, strict=False):
                _give_attributes(callback, attributes)
            self._history.history = {name: list(values) for name, values in state.history.items()}
            self._history.epoch = list(state.history_epochs)
        self.model._initial_epoch = begin.info.epoch
        if self._ctx.is_chief:
            if not begin.is_of_this_run:
                for epoch, step, values in state.told:
                    self._ctx.epoch_ended(epoch, step, values)
            where = f"epoch {begin.info.epoch + 1}"
            if begin.info.step_in_epoch:
                where += f", after {begin.info.step_in_epoch} of its steps"
            found = f"as {begin.of} has it. No step is lost" if begin.of else begin.info.path
            joint = ", " if begin.of else ": "
            self._ctx.note("info", f"Training goes on after step {begin.info.step}", f"With {where}{joint}{found}")


class Saving(keras.callbacks.Callback):
    """Runs after ``Last``: writes checkpoints when they are due, and gives a task what it had for itself.

    The job's ``checkpoint`` None: none are written. ``sync``: a GradientSync, or what stands in its place.
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
        self._passes = training.passes
        self._first_epoch = training.first_epoch
        self._batch = training.batch
        self._fetch = training.fetch
        self._load = training.load
        self._places = training.places
        self._tasks = training.tasks or training.reducer.size
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
        """Wait until the last one is written."""
        if self._writer is not None:
            self._writer.wait()

    # -- when -----------------------------------------------------------------------------------------------------

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
        if policy.every_seconds is not None and self._is_time(policy.every_seconds):
            self._is_due = True
        within = self._last.step_in_epoch
        if self._length is not None and within >= self._length:
            return  # and the end of the epoch comes first
        if self.model.stop_training:
            self._stopped_within = True
            self._is_due = any(self._reducer.all_gather(bool(self._ctx.should_stop)))
        if self._is_due and within % self._passes == 0:
            self._save(self._epoch, within, is_last=self._stopped_within)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        policy = self._policy
        if policy is None or self._stopped_within:
            return
        values = {name: value for name, value in (logs or {}).items() if isinstance(value, float)}
        self._told.append((epoch, self._last.step, values))
        every = policy.after_epochs
        is_last = bool(self.model.stop_training) or epoch + 1 >= self._job.epochs
        if not is_last and every is not None and (epoch + 1) % every == 0:
            self._is_due |= not self._is_default or self._is_cheap()
        if is_last or self._is_due:
            self._save(epoch + 1, 0, self._best(values), is_last)

    def _is_time(self, every_s: float) -> bool:
        """Whether the chief's clock says so; on all tasks alike, one exchange later."""
        is_chief = self._reducer.rank == 0
        is_time = is_chief and time.monotonic() - self._begun >= every_s
        if self._reducer.size == 1:
            return is_time
        if is_time and self._sync.checkpoints_asked == self._asks:
            self._sync.ask_for_checkpoint()
        agreed: int = self._sync.agreement.checkpoints
        is_agreed, self._asks = agreed > self._asks, agreed
        return is_agreed

    def _is_cheap(self) -> bool:
        """Whether the chief thinks that another one will not hold the training up. A collective."""
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
                self._ctx.note("warning", f"No checkpoint is the best by {name}", f"The epochs have these: {there}")
        return values.get(name)

    # -- what -----------------------------------------------------------------------------------------------------

    def _save(self, epoch: int, within: int, metric: float | None = None, is_last: bool = False) -> None:
        """Take a snapshot, and begin to write it. A collective."""
        with saving():
            self._take_and_write(epoch, within, metric, is_last)

    def _take_and_write(self, epoch: int, within: int, metric: float | None, is_last: bool) -> None:
        self._is_due = False
        self._begun = time.monotonic()
        if self._writer is not None:
            self._writer.wait()
            self._fetch()
        self._write(self._last.step, epoch, within, metric, is_last)

    def _write(self, step: int, epoch: int, within: int, metric: float | None, is_last: bool) -> None:
        """Begin to write what the chief's model holds. A collective."""
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
        arrays = self._snapshots.take(variables_of(self.model, self._optimizers))
        self._took_s = time.monotonic() - self._begun
        self._writer.write(manifest, arrays, files.pickled(state), last=is_last)

    def state(self, parts: list[Part]) -> FitState:
        """What is pickled, with those parts."""
        return FitState(
            seed=self._job.seed,
            data=_data_of(self._job),
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

    def part(self, is_within: bool) -> Part:
        """What this task has for itself now; ``is_within`` an epoch."""
        generator = get_global_attribute("global_seed_generator")  # asking for it otherwise makes one
        part = Part(
            seeds=[files.taken(state) for state in seed_states(self.model)],
            keras_seed=None if generator is None else files.taken(generator.state),
            numpy_random=np.random.get_state(),
            python_random=random.getstate(),
            callbacks=[attributes(callback) for callback in self._own],
        )
        if is_within:
            part.moving = [files.taken(variable) for variable in self.model.non_trainable_weights]
            part.metrics = [files.taken(variable) for variable in metric_variables(self.model)]
        return part

    def _give(self, part: Part) -> None:
        _assign(seed_states(self.model), part.seeds)
        if part.keras_seed is not None:
            _assign([global_seed_generator().state], [part.keras_seed])
        if part.numpy_random is not None:
            np.random.set_state(part.numpy_random)
        if part.python_random is not None:
            random.setstate(part.python_random)
        if part.moving is not None:
            _assign(self.model.non_trainable_weights, part.moving)
        if part.metrics is not None:
            _assign(metric_variables(self.model), part.metrics)


def skip_of(begin: Begin | None, job: FitJob, steps_per_execution: int) -> Skip | None:
    """What of its examples a training leaves out, for it has seen them; None for nothing."""
    if begin is None or (not begin.info.step_in_epoch and job.steps_per_epoch is None):
        return None
    return skip_until(begin.info.epoch, begin.info.step_in_epoch, begin.state.first_epoch, job, steps_per_execution)


def skip_until(epoch: int, within: int, first: int, job: FitJob, steps_per_execution: int) -> Skip:
    """What a training leaves out that began with epoch ``first`` and goes on after ``within`` steps of ``epoch``."""
    passed = (epoch - first) * (job.steps_per_epoch or 0)
    takes = steps_per_execution if steps_per_execution > 1 else 0
    return Skip(within, within // steps_per_execution, takes, passed, first)


def variables_of(model: Any, optimizers: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Every variable that all tasks have alike, by its key: ``model/<number>/<path>``."""
    groups = [("model", model.weights), *((_numbered("optimizer", i), o.variables) for i, o in enumerate(optimizers))]
    groups += [(_numbered("aside", i), layer.variables) for i, layer in enumerate(layers_aside(model))]
    for group, variables in groups:
        for number, variable in enumerate(variables):
            yield f"{group}/{number}/{getattr(variable, 'path', variable.name)}", variable


def _numbered(name: str, number: int) -> str:
    return f"{name}{number + 1}" if number else name


def _place(key: str) -> list[str]:
    return key.split("/")[:2]


def _words(key: str, shape: list[int], dtype: str) -> str:
    group, _, path = key.split("/", 2)
    return f"{path} of the {group}, {dtype} of shape {tuple(shape)}"


def _data_of(job: FitJob) -> dict[str, Any]:
    if not isinstance(job.data, Arrays):
        return {"steps_per_epoch": job.steps_per_epoch}
    first = next(leaf for leaf in keras.tree.flatten(job.data.x) if leaf is not None)
    return {
        "examples": len(first),
        "batch_size": job.batch_size or 32,
        "shuffle": job.shuffle,
        "steps_per_epoch": job.steps_per_epoch,
    }


def metric_variables(model: Any) -> list[Any]:
    """The states of a model's metrics."""
    return list({id(v): v for metric in model.metrics for v in metric.variables}.values())


def _assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    if [tuple(v.shape) for v in variables] == [np.shape(value) for value in values]:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def attributes(callback: Any) -> bytes:
    """Pickle of what a callback holds, without the model and what cannot be pickled."""
    kept = {}
    for name, value in vars(callback).items():
        if name in ("_model", "params") or isinstance(value, (keras.Layer, keras.optimizers.Optimizer)):
            continue
        with contextlib.suppress(Exception):  # an open file, a lock: the callback makes its own
            kept[name] = cloudpickle.dumps(value)
    return pickle.dumps(kept)


def _give_attributes(callback: Any, data: bytes) -> None:
    of_its_file = _OF_THE_FILE if isinstance(callback, keras.callbacks.CSVLogger) else ()
    for name, value in pickle.loads(data).items():
        if name in of_its_file:
            continue
        with contextlib.suppress(Exception):  # of a class that is not here any more
            vars(callback)[name] = pickle.loads(value)


def mean_of(parts: Sequence[list[Any] | None]) -> list[Any] | None:
    """Of each array the mean over the tasks; the chief's of what are no floating-point numbers."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    return [
        np.mean([np.asarray(value, np.float64) for value in values], axis=0).astype(values[0].dtype)
        if keras.backend.is_float_dtype(values[0].dtype.name)
        else values[0]
        for values in zip(*known, strict=True)
    ]


def _total(parts: Sequence[list[Any] | None], rank: int) -> list[Any] | None:
    """Of each array the sum over the tasks, for the chief; zeros for the others."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    totals = [np.sum(values, axis=0, dtype=values[0].dtype) for values in zip(*known, strict=True)]
    return totals if rank == 0 else [np.zeros_like(total) for total in totals]
