"""What happens in each round: which process of which run is killed, frozen or stopped, and when. Pure.

A seed gives an order of all that can happen; round ``n`` is the ``n``-th of it, and the same one every time.
"""

from __future__ import annotations

import random
from typing import NamedTuple

TRAININGS = ("allreduce", "mirrored", "ps, sync", "ps, async", "ps, backup", "pipeline")
STRATEGIES = (*TRAININGS, "program")
STEPS = 60
"""Of each run."""

TASKS = ("chief", "worker", "ps")
WHOM = (*TASKS, "warm", "host", "cluster", "client", "run")
"""``warm``: the process that tasks are forked from; ``host``: a Dask worker; ``cluster``: the cluster process, in which
Dask's scheduler and nannies are; ``client``: who started the run; ``run``: nobody, it is asked to stop.
"""
WHAT = ("kill", "freeze", "pause", "notice", "stop")
"""SIGKILL; SIGSTOP; SIGSTOP, and SIGCONT when others have seen it; SIGTERM, by which a host is told that its machine is
to go; a person's stop.
"""
WHEN = ("a step", "a checkpoint", "the start", "a restart", "the last step", "a stop")
HAVE_PS = ("ps, sync", "ps, async", "ps, backup")
APART = ("ps, async", "ps, backup")
"""Whose workers do not wait for each other: one that is lost while the run goes on is started again alone."""


class Round(NamedTuple):
    """One run, and what is done to it."""

    number: int
    strategy: str
    what: str
    whom: str
    when: str
    step: int
    """The run is held at the end of this step, until everything is in its place."""
    is_held: bool
    """Whether it stands still there while it happens, or has just been let go on."""

    def __str__(self) -> str:
        held = "held at" if self.is_held else "going on from"
        return f"{self.strategy:<10} {self.what:<6} {self.whom:<7} {self.when:<13} {held} {self.step}"


def happens(strategy: str, what: str, whom: str, when: str) -> bool:
    """Whether it can: who is killed has to be there, and there has to be such a moment."""
    if (whom == "run") != (what == "stop") or (whom == "ps" and strategy not in HAVE_PS):
        return False
    if what == "notice" and (whom != "host" or when == "the start"):  # which may have no tasks then, and just ends
        return False
    if whom == "client":  # it has no part in what else happens
        return strategy == "program" and when == "a step"
    if when == "a checkpoint" and strategy in APART:
        return False
    if when == "the last step" and strategy == "ps, backup":  # a worker that is late has none
        return False
    if what == "pause":
        return when in ("a step", "the last step")
    return not (what == "stop" and when == "a stop")


ALL = [
    (strategy, what, whom, when)
    for strategy in STRATEGIES
    for what in WHAT
    for whom in WHOM
    for when in WHEN
    if happens(strategy, what, whom, when)
]


def round_of(seed: int, number: int) -> Round:
    """Round ``number`` (from 0) of a seed. After all that can happen, it happens again in another order."""
    lap, place = divmod(number, len(ALL))
    order = list(ALL)
    random.Random(f"order {seed} {lap}").shuffle(order)
    return made(number, order[place], random.Random(f"round {seed} {number}"))


def made(number: int, kind: tuple[str, str, str, str], chance: random.Random) -> Round:
    """A round of this kind: strategy, what, whom and when. What is left open is left to chance."""
    strategy, what, whom, when = kind
    step = STEPS if when == "the last step" else chance.randrange(1, STEPS * 2 // 3)
    is_slow = what in ("pause", "notice") or (what, whom) == (
        "kill",
        "warm",
    )  # a process with so much memory takes long to die
    is_held = when in ("the last step", "a stop") or (when == "a step" and (is_slow or chance.random() < 0.5))
    return Round(number, strategy, what, whom, when, step, is_held)
