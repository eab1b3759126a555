"""Contains the part of a training checkpoint that TensorFlow does not write: the state of each task, and the shared
state.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np

from ....schema.checkpoint import CheckpointInfo, StoredVariable
from ..model.changed_attributes import ChangedAttributes
from ..model.model_state import layers_aside
from ..model.parts import Reference
from .callback_pickles import Pickles
from .job import Arrays, FitJob
from .models import seed_of_task
from .sources.base import BatchSource


@dataclass
class Part:
    """The state of one task. ``seeds``, ``moving`` and ``metrics`` are in the order in which the model lists its
    variables. ``moving`` and ``metrics`` are None between two epochs, when all tasks have the same values.

    The states of the program's random generators are None if they have been lost; the generators then keep their
    initial states.
    """

    seeds: list[Any]
    keras_seed: Any
    numpy_random: Any
    python_random: Any
    callbacks: list[bytes]
    moving: list[Any] | None = None
    metrics: list[Any] | None = None
    held: list[Any] | None = None
    """The values of ``held_variables``. None in checkpoints of earlier versions."""
    attributes: dict[Reference, ChangedAttributes] | None = None
    """The plain attributes of the model and its parts that have changed in training. None in checkpoints of earlier
    versions.
    """


@dataclass
class FitState:
    """The pickled state of a training run."""

    seed: int
    """The job's seed, which determines the order of the examples."""
    data: dict[str, Any]
    """The settings that determine which data a step in the middle of an epoch uses."""
    first_epoch: int
    """The epoch at which the training run began."""
    batch: Any
    """The structure of a batch, as in ``FitResult.batch``."""
    parts: list[Part]
    """The states of the tasks, in rank order."""
    history: dict[str, list[float]]
    history_epochs: list[int]
    told: list[tuple[int, int, dict[str, float]]] = field(default_factory=list)
    """For each epoch that has ended: its number, the step at its end, and the values of its metrics."""
    places: tuple[tuple[int, int, int], ...] = ()
    """The epoch, the step in the epoch and the total step of each task, in rank order, if tasks are at different steps.

    In that case, the epoch and steps of the checkpoint itself are those of the chief.
    """


@dataclass
class Begin:
    """The point at which a training run resumes: the contents of a checkpoint that every task needs."""

    info: CheckpointInfo
    variables: list[StoredVariable]
    state: FitState
    is_of_this_run: bool
    is_over: bool = False
    """Whether no steps remain, because the tasks have agreed to stop."""
    of: str = ""
    """The name of the task from which this state comes; empty if it comes from a checkpoint."""

    def job(self, job: FitJob) -> FitJob:
        """Return a copy of ``job`` that continues from this point."""
        return replace(job, seed=self.state.seed, initial_epoch=self.info.epoch, began=self.state.first_epoch)

    def part(self, rank: int, size: int) -> Part:
        """Return the state of a task. If the number of tasks has changed, the saved states are redistributed."""
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
            held=chiefs.held,
            attributes=chiefs.attributes,
        )


def variables_of(model: Any, optimizers: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the key and the variable for every variable that is equal on all tasks. A key is
    ``<group>/<number>/<path>``, such as ``model/0/...``.
    """
    groups = [("model", model.weights), *((_numbered("optimizer", i), o.variables) for i, o in enumerate(optimizers))]
    groups += [(_numbered("aside", i), layer.variables) for i, layer in enumerate(layers_aside(model))]
    for group, variables in groups:
        for number, variable in enumerate(variables):
            yield f"{group}/{number}/{getattr(variable, 'path', variable.name)}", variable


def _numbered(name: str, number: int) -> str:
    return f"{name}{number + 1}" if number else name


def data_of(job: FitJob) -> dict[str, Any]:
    """Return the settings that determine which data a step in the middle of an epoch uses."""
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
    """Assign values to variables if their number and shapes match; otherwise, do nothing."""
    if [tuple(v.shape) for v in variables] == [np.shape(value) for value in values]:
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)


def attributes(callback: Any, pickles: Pickles) -> bytes:
    """Return a pickled dict of a callback's attributes, each of which is pickled separately. Models, layers, optimizers
    and attributes that cannot be pickled are omitted.
    """
    kept = {}
    for name, value in vars(callback).items():
        if name in ("_model", "params") or isinstance(value, (keras.Layer, keras.optimizers.Optimizer)):
            continue
        with contextlib.suppress(Exception):  # such as an open file or a lock, which the callback recreates
            kept[name] = pickles.dumps(value)
    return pickle.dumps(kept)


_OF_THE_FILE = ("append", "append_header")
"""Attributes of a ``CSVLogger`` that describe the file it has opened."""


def give_attributes(callback: Any, data: bytes, pickles: Pickles) -> None:
    """Restore a callback's attributes from ``data``, which ``attributes`` returned for a callback of the same class."""
    of_its_file = _OF_THE_FILE if isinstance(callback, keras.callbacks.CSVLogger) else ()
    for name, value in pickle.loads(data).items():
        if name in of_its_file:
            continue
        with contextlib.suppress(Exception):  # an object of a class that no longer exists here
            vars(callback)[name] = pickles.loads(value)


def mean_of(parts: Sequence[list[Any] | None]) -> list[Any] | None:
    """Return the mean of each array over the tasks that have arrays, or the first task's array if its values are not
    floating-point numbers. None if no task has arrays.
    """
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
    """Return the sum of each array over the tasks if ``rank`` is 0, and zeros for other ranks. None if no task has
    arrays.
    """
    known = [part for part in parts if part is not None]
    if not known:
        return None
    totals = [np.sum(values, axis=0, dtype=values[0].dtype) for values in zip(*known, strict=True)]
    return totals if rank == 0 else [np.zeros_like(total) for total in totals]
