"""Trains the matrix or a part of it, and compares every cell with the expected outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, pairwise, product

from . import layers, models, training
from .compare import distance
from .expected import expected, verdict
from .rows import Expected, Outcome, Refused, Trial
from .running import STRATEGIES, TASKS_COUNTED, alone, together

ONE_CLIENT = ("mirrored", "pipeline")
"""Strategies under which one process does nearly all the work."""

AT_A_TIME = 4
"""The number of gangs that run at the same time. The tasks of a gang wait for each other, and all of them for the first
one, which also acts as the client.
"""
FOR_A_GANG = 48
"""The approximate number of trials per gang. Gangs that end at different times keep the machine busy to the end, but
each takes a second to start.
"""


@dataclass(frozen=True)
class Cell:
    """The outcome of one row under one strategy with a number of tasks. ``wrong`` is empty if it is as expected."""

    kind: str
    row: str
    strategy: str
    tasks: int
    expected: Expected
    apart: float
    wrong: str
    warnings: tuple[str, ...] = ()


def every_trial() -> list[Trial]:
    """Return trials that cover all rows of the matrix."""
    return [*training.trials(), *models.trials(), *layers.trials()]


def cells(
    trials: Sequence[Trial], strategies: Sequence[str] = STRATEGIES, tasks: Sequence[int] = TASKS_COUNTED
) -> Iterator[Cell]:
    """Yield all cells of some trials as their outcomes become known."""
    runs = sorted(product(strategies, tasks), key=lambda run: run[0] in ONE_CLIENT)  # the slowest ones begin first
    some = {run: _divided(trials, *run) for run in runs}
    with ThreadPoolExecutor(AT_A_TIME) as some_gangs:
        reference = some_gangs.submit(alone, trials)
        found = {run: [some_gangs.submit(together, part, *run) for part in _parts(some[run])] for run in runs}
        try:
            wanted = _of_one_process(trials, reference.result())
        except BaseException:
            some_gangs.shutdown(wait=False, cancel_futures=True)
            raise
        for strategy, count in runs:
            all_outcomes = chain.from_iterable(part.result() for part in found[strategy, count])
            for trial, outcomes in zip(some[strategy, count], all_outcomes, strict=True):
                for row, outcome in outcomes.items():
                    what = expected(trial.kind, row, strategy, count, trial.tolerance)
                    apart, wrong = _judged(what, outcome, wanted[trial.kind, row])
                    yield Cell(trial.kind, row, strategy, count, what, apart, wrong, outcome.warnings)


def _of_one_process(trials: Sequence[Trial], found: Sequence[dict[str, Outcome]]) -> dict[tuple[str, str], Outcome]:
    """Return the outcomes in one process, with which all cells are compared, keyed by kind and row."""
    wanted = {
        (trial.kind, row): outcome
        for trial, outcomes in zip(trials, found, strict=True)
        for row, outcome in outcomes.items()
    }
    if failed := {row: outcome.error for row, outcome in wanted.items() if outcome.error}:
        raise RuntimeError(f"One process of plain Keras must train every row, these failed: {failed}")
    return wanted


def _judged(what: Expected, found: Outcome, wanted: Outcome) -> tuple[float, str]:
    """Return how much a row differs from its outcome in one process, and what is wrong with that."""
    apart, where = (0.0, "") if found.error or found.refusal else distance(found, wanted)
    return apart, verdict(what, found.error, found.refusal, apart, where)


def _parts(trials: Sequence[Trial]) -> Iterator[Sequence[Trial]]:
    count = max(1, round(len(trials) / FOR_A_GANG))
    ends = [len(trials) * number // count for number in range(count + 1)]
    return (trials[begin:end] for begin, end in pairwise(ends))


def _divided(trials: Sequence[Trial], strategy: str, tasks: int) -> list[Trial]:
    """Return the trials with each row that has to be refused in a trial of its own, so that no other row is refused
    with it.
    """
    found = []
    for trial in trials:
        what = {row: expected(trial.kind, row, strategy, tasks, 0.0) for row in trial.rows}
        trained = tuple(row for row in trial.rows if not isinstance(what[row], Refused))
        groups = [trained, *((row,) for row in trial.rows if row not in trained)]
        found += [replace(trial, rows=rows) for rows in groups if rows]
    return found
