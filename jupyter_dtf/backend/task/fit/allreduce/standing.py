"""Where the tasks of a training stand when some of them are lost, and what all go on from: the furthest that lives."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .....schema.checkpoint import CheckpointInfo
from ...collectives.contract import Reducer
from ..checkpoint_state import Begin, FitState, Part, mean_of
from ..job import PackedCallback
from ..models import seed_of_task


@dataclass
class Standing:
    """Where a task is that lives. What follows ``own`` is its alone, as is ``part``."""

    step: int
    """Steps done, of all epochs."""
    epoch: int
    """The epoch to go on with, from 0."""
    within: int
    """Steps of it that are done; all of them where its end is under way."""
    part: Part
    """What the task has for itself."""
    state: FitState
    """Without parts."""
    seeds: list[list[int]]
    """Of the model's random generators, by rank of the gang that this was."""
    own: dict[int, bytes]
    """The attributes of the callbacks that run here, by their places among the job's."""
    chiefs: dict[int, bytes]
    """The same of the chief, as they were when the epoch began."""
    is_over: bool = False
    """Whether the tasks have agreed to stop at the end of the epoch before."""
    epoch_begun: bool = False
    """Whether the task's callbacks have heard of the beginning of the epoch."""
    epoch_ended: bool = False
    """And of its end."""
    was_chief: bool = False
    """Whether the callbacks that run on the chief alone have run here."""
    wants_stop: bool = False
    """Whether one of them has asked for the end of the training then."""


@dataclass(frozen=True)
class Agreed:
    """What all tasks of a new gang know: where it begins, and who has the weights."""

    begin: Begin
    furthest: int
    """The rank of the task whose weights the others take."""


def agree(own: Standing | None, tasks: Sequence[str], packed: Sequence[PackedCallback], reducer: Reducer) -> Agreed:
    """What the tasks go on from; ``own`` is None on one that is new. A collective.

    ``tasks`` are their names; ``packed`` are the job's callbacks.
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


def places_here(packed: Sequence[PackedCallback], is_chief: bool) -> list[int]:
    """Which of the job's callbacks run on a task, in the order of ``callbacks_here``."""
    return [place for place, callback in enumerate(packed) if is_chief or callback.everywhere]


def _part_of(rank: int, standings: Sequence[Standing | None], furthest: int, packed: Sequence[PackedCallback]) -> Part:
    """What a task has for itself from here on. What was a lost one's alone follows from what the others have."""
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
    if own.step < best.step:  # the furthest has done a step that this one has only begun
        part = replace(part, seeds=_counted_as([int(state[0]) for state in part.seeds], states))
    return part


def _counted_as(seeds: Sequence[int], states: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """States of random generators with these seeds, which have drawn as often as those of ``states``."""
    return [np.array([seed, int(state[1])], np.asarray(state).dtype) for seed, state in zip(seeds, states, strict=True)]


def _callbacks_of(
    rank: int, own: Standing | None, best: Standing, chief: Standing | None, packed: Sequence[PackedCallback]
) -> list[bytes]:
    """The attributes of a task's callbacks: its own, or what the chief's, or those of another task, had last.

    ``chief``: who was that and lives. Only where nobody does, what the others were told of it is what is known.
    """
    if rank == 0:
        known = {**best.own, **best.chiefs, **(chief.own if chief is not None else {})}
    else:
        known = {**best.chiefs, **best.own}
    known.update(own.own if own is not None else {})
    return [known.get(place, NOTHING) for place in places_here(packed, rank == 0)]


NOTHING = pickle.dumps({})
"""The attributes of a callback of which nobody that lives knows any."""
