"""Describes the positions of a run's tasks when some tasks are lost, and chooses the position of the furthest survivor
as the one to continue from.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .....schema.checkpoint import CheckpointInfo
from ...collectives.primitive import Reducer
from ..checkpoint_state import Begin, FitState, Part, mean_of
from ..job import PackedCallbacks
from ..models import seed_of_task


@dataclass
class Standing:
    """The position of a surviving task, and the state from which it and others can continue. ``state``, ``seeds`` and
    ``chiefs`` describe the whole run; the other fields describe only this task.
    """

    step: int
    """The number of steps completed so far, in all epochs."""
    epoch: int
    """The epoch to continue with, counted from 0."""
    within: int
    """The number of completed steps of this epoch. It is reset to 0 only after the end of the epoch has been processed.
    """
    part: Part
    """The task's own state."""
    state: FitState
    """The state of the training run, with an empty ``parts``."""
    seeds: list[list[int]]
    """The seeds of the model's random generators on each task, in rank order of the previous group of tasks."""
    own: dict[int, bytes]
    """The pickled attributes of the callbacks that run on this task, keyed by the callbacks' index in the job."""
    chiefs: dict[int, bytes]
    """The pickled attributes of the chief's callbacks at the beginning of the epoch, keyed by the callbacks' index in
    the job.
    """
    is_over: bool = False
    """Whether the tasks agreed, at the end of the previous epoch, to stop training."""
    epoch_begun: bool = False
    """Whether the task's callbacks have been called for the start of the epoch."""
    epoch_ended: bool = False
    """Whether the task's callbacks have been called for the end of the epoch."""
    was_chief: bool = False
    """Whether this task was the chief, on which all callbacks run."""
    wants_stop: bool = False
    """Whether a callback requested, at the end of the epoch, that training stop."""


@dataclass(frozen=True)
class Agreed:
    """The agreement of all tasks in a new group: the state from which the group starts, and the task that has the
    weights.
    """

    begin: Begin
    furthest: int
    """The rank of the task whose weights are copied to the other tasks."""


def agree(own: Standing | None, tasks: Sequence[str], packed: PackedCallbacks, reducer: Reducer) -> Agreed:
    """Agree with all other tasks on the state from which training continues. A collective.

    ``own``: this task's position, or None if this task is new. ``tasks``: the names of the tasks, in rank order;
    ``packed``: the job's callbacks.
    """
    standings: list[Standing | None] = reducer.all_gather(own)
    living = [(rank, each) for rank, each in enumerate(standings) if each is not None]
    furthest, best = max(living, key=lambda pair: (pair[1].step, pair[1].epoch, -pair[0]))
    parts = [_part_of(rank, standings, furthest, packed) for rank in range(len(standings))]
    begin = Begin(
        info=CheckpointInfo(step=best.step, epoch=best.epoch, step_in_epoch=best.within),
        variables=[],
        state=replace(best.state, parts=parts),
        is_of_this_run=True,
        is_over=best.is_over,
        of=tasks[furthest],
    )
    return Agreed(begin, furthest)


def _part_of(rank: int, standings: Sequence[Standing | None], furthest: int, packed: PackedCallbacks) -> Part:
    """Return the new state of task ``rank``. State that was lost with a task is derived from the state of the
    survivors.
    """
    best, own = standings[furthest], standings[rank]
    assert best is not None
    chief = next((each for each in standings if each is not None and each.was_chief), None)
    callbacks = _callbacks_of(rank, own, best, chief, packed)
    states = best.part.seeds
    if own is None:
        seeds = [seed_of_task(state, rank - furthest)[0] for state in states]
        if len(best.seeds) == len(standings):
            seeds = best.seeds[rank]
        generator = best.part.keras_seed
        return Part(
            seeds=_counted_as(seeds, states),
            keras_seed=None if generator is None else seed_of_task(generator, rank - furthest),
            numpy_random=None,
            python_random=None,
            callbacks=callbacks,
            moving=mean_of([each.part.moving for each in standings if each is not None]),
        )
    part = replace(own.part, callbacks=callbacks)
    if own.step < best.step:  # the furthest task has finished a step that this task has only begun
        part = replace(part, seeds=_counted_as([int(state[0]) for state in part.seeds], states))
    return part


def _counted_as(seeds: Sequence[int], states: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Return one generator state per seed, with the counter of the corresponding state in ``states``."""
    return [np.array([seed, int(state[1])], np.asarray(state).dtype) for seed, state in zip(seeds, states, strict=True)]


def _callbacks_of(
    rank: int, own: Standing | None, best: Standing, chief: Standing | None, packed: PackedCallbacks
) -> list[bytes]:
    """Return the pickled attributes of each callback of task ``rank``, in the job's order: the attributes that the task
    itself holds, or else those last known from the chief or another task.

    ``chief``: the position of the chief, if it has survived; otherwise None, and only the attributes that the chief has
    shared with the other tasks are known.
    """
    if rank == 0:
        known = {**best.own, **best.chiefs, **(chief.own if chief is not None else {})}
    else:
        known = {**best.chiefs, **best.own}
    known.update(own.own if own is not None else {})
    return [known.get(place, NOTHING) for place in packed.places(rank == 0)]


NOTHING = pickle.dumps({})
"""The pickled attributes that a callback gets if no survivor has its attributes: an empty dict."""
