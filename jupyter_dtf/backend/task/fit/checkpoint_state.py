"""What a training's checkpoint has beside TensorFlow's part: what each task has for itself, and what all have alike."""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import cloudpickle
import keras
import numpy as np

from ....schema.checkpoint import CheckpointInfo, StoredVariable
from ..model.model_state import layers_aside
from .job import Arrays, FitJob
from .models import seed_of_task
from .sources.base import BatchSource


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

    def job(self, job: FitJob) -> FitJob:
        """The job as it is from here on."""
        return replace(job, seed=self.state.seed, initial_epoch=self.info.epoch, began=self.state.first_epoch)

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


def variables_of(model: Any, optimizers: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Every variable that all tasks have alike, by its key: ``model/<number>/<path>``."""
    groups = [("model", model.weights), *((_numbered("optimizer", i), o.variables) for i, o in enumerate(optimizers))]
    groups += [(_numbered("aside", i), layer.variables) for i, layer in enumerate(layers_aside(model))]
    for group, variables in groups:
        for number, variable in enumerate(variables):
            yield f"{group}/{number}/{getattr(variable, 'path', variable.name)}", variable


def _numbered(name: str, number: int) -> str:
    return f"{name}{number + 1}" if number else name


def metric_variables(model: Any) -> list[Any]:
    """The states of a model's metrics."""
    return list({id(v): v for metric in model.metrics for v in metric.variables}.values())


def data_of(job: FitJob) -> dict[str, Any]:
    """What a step in the middle of an epoch is counted by."""
    if isinstance(job.data, BatchSource) and job.data.examples is not None:
        counted = {"examples": job.data.examples, "batch_size": job.batch_size or 32, "shuffle": job.shuffle}
        return {**counted, "steps_per_epoch": job.steps_per_epoch}
    if isinstance(job.data, BatchSource) and job.data.batches is not None:
        return {"batches": job.data.batches, "shuffle": job.shuffle, "steps_per_epoch": job.steps_per_epoch}
    if not isinstance(job.data, Arrays):
        return {"steps_per_epoch": job.steps_per_epoch}
    first = next(leaf for leaf in keras.tree.flatten(job.data.x) if leaf is not None)
    return {
        "examples": len(first),
        "batch_size": job.batch_size or 32,
        "shuffle": job.shuffle,
        "steps_per_epoch": job.steps_per_epoch,
    }


def assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Give variables their values, if these are those of as many variables of these shapes."""
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


_OF_THE_FILE = ("append", "append_header")
"""Attributes of a ``CSVLogger`` that say how the file is that it has found."""


def give_attributes(callback: Any, data: bytes) -> None:
    """Give a callback what ``attributes`` has of one like it."""
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
