"""Determines what happens in each round: which process of which run is killed, frozen or stopped, and when. Pure.

A seed determines an order of all possible kinds of round. Round ``n`` is the ``n``-th in this order, and always the
same.
"""

from __future__ import annotations

import random
from typing import NamedTuple

TRAININGS = ("allreduce", "mirrored", "ps, sync", "ps, async", "ps, backup", "pipeline")
STRATEGIES = (*TRAININGS, "program")
STEPS = 60
"""The number of steps of each run."""

TASKS = ("chief", "worker", "ps")
WHOM = (*TASKS, "warm", "host", "cluster", "client", "run")
"""The process to which something is done, or ``run``: no process, but the run is asked to stop. ``warm``: the process
that tasks are forked from; ``host``: a Dask worker; ``cluster``: the cluster process, in which Dask's scheduler and
nannies run; ``client``: the process that started the run.
"""
WHAT = ("kill", "freeze", "pause", "notice", "stop")
"""In this order: SIGKILL; SIGSTOP; SIGSTOP, followed by SIGCONT when other processes have noticed it; SIGTERM, which
announces to a host that its machine is about to be taken away; a stop requested by a user.
"""
WHEN = ("a step", "a checkpoint", "the start", "a restart", "the last step", "a stop")
HAVE_PS = ("ps, sync", "ps, async", "ps, backup")
APART = ("ps, async", "ps, backup")
"""Strategies whose workers do not wait for each other: a worker that is lost while the run continues is restarted
alone.
"""


class Round(NamedTuple):
    """One run, and what is done to it."""

    number: int
    strategy: str
    what: str
    whom: str
    when: str
    step: int
    """The run is held at the end of this step, until everything is ready."""
    is_held: bool
    """Whether the run is still held at that moment. Otherwise, it has just been released."""

    def __str__(self) -> str:
        held = "held at" if self.is_held else "going on from"
        return f"{self.strategy:<10} {self.what:<6} {self.whom:<7} {self.when:<13} {held} {self.step}"


def happens(strategy: str, what: str, whom: str, when: str) -> bool:
    """Return whether a kind of round is possible: its process has to exist, and its moment has to occur."""
    if (whom == "run") != (what == "stop") or (whom == "ps" and strategy not in HAVE_PS):
        return False
    if what == "notice" and (whom != "host" or when == "the start"):  # a host without tasks ends immediately
        return False
    if whom == "client":  # the client plays no part in the other moments
        return strategy == "program" and when == "a step"
    if when == "a checkpoint" and strategy in APART:
        return False
    if when == "the last step" and strategy == "ps, backup":  # a late worker has no last step
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
    """Return round ``number`` (from 0) of a seed. After all kinds have occurred once, they occur again in another
    order.
    """
    lap, place = divmod(number, len(ALL))
    order = list(ALL)
    random.Random(f"order {seed} {lap}").shuffle(order)
    return made(number, order[place], random.Random(f"round {seed} {number}"))


def made(number: int, kind: tuple[str, str, str, str], chance: random.Random) -> Round:
    """Return a round of this kind (strategy, what, whom, when). The rest is chosen at random."""
    strategy, what, whom, when = kind
    step = STEPS if when == "the last step" else chance.randrange(1, STEPS * 2 // 3)
    is_slow = what in ("pause", "notice") or (what, whom) == (
        "kill",
        "warm",
    )  # a process with that much memory takes long to die
    is_held = when in ("the last step", "a stop") or (when == "a step" and (is_slow or chance.random() < 0.5))
    return Round(number, strategy, what, whom, when, step, is_held)
