"""The matrix, or a part of it: trained, and held against what is expected."""

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
"""Under these one process does nearly all the work."""

AT_A_TIME = 4
"""Gangs. The tasks of one wait for each other, and all of them for the first one, which is their client, too."""
FOR_A_GANG = 48
"""Trials, about. Gangs that end one after another keep the machine busy to the end; each takes a second to begin."""


@dataclass(frozen=True)
class Cell:
    """One row under one strategy with so many tasks. ``wrong`` is empty where it is as expected."""

    kind: str
    row: str
    strategy: str
    tasks: int
    expected: Expected
    apart: float
    wrong: str
    warnings: tuple[str, ...] = ()


def every_trial() -> list[Trial]:
    """All rows of the matrix."""
    return [*training.trials(), *models.trials(), *layers.trials()]


def cells(
    trials: Sequence[Trial], strategies: Sequence[str] = STRATEGIES, tasks: Sequence[int] = TASKS_COUNTED
) -> Iterator[Cell]:
    """All cells of some trials, as they are known."""
    runs = sorted(product(strategies, tasks), key=lambda run: run[0] in ONE_CLIENT)  # what takes longest begins
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
    """What every cell is held against, by kind and row."""
    wanted = {
        (trial.kind, row): outcome
        for trial, outcomes in zip(trials, found, strict=True)
        for row, outcome in outcomes.items()
    }
    if failed := {row: outcome.error for row, outcome in wanted.items() if outcome.error}:
        raise RuntimeError(f"One process of plain Keras must train every row, these failed: {failed}")
    return wanted


def _judged(what: Expected, found: Outcome, wanted: Outcome) -> tuple[float, str]:
    """How far apart a row is from what one process has, and what is wrong with that."""
    apart, where = (0.0, "") if found.error or found.refusal else distance(found, wanted)
    return apart, verdict(what, found.error, found.refusal, apart, where)


def _parts(trials: Sequence[Trial]) -> Iterator[Sequence[Trial]]:
    count = max(1, round(len(trials) / FOR_A_GANG))
    ends = [len(trials) * number // count for number in range(count + 1)]
    return (trials[begin:end] for begin, end in pairwise(ends))


def _divided(trials: Sequence[Trial], strategy: str, tasks: int) -> list[Trial]:
    """The same trials, where rows that are to be refused are each alone: one that is takes no other along."""
    found = []
    for trial in trials:
        what = {row: expected(trial.kind, row, strategy, tasks, 0.0) for row in trial.rows}
        trained = tuple(row for row in trial.rows if not isinstance(what[row], Refused))
        groups = [trained, *((row,) for row in trial.rows if row not in trained)]
        found += [replace(trial, rows=rows) for rows in groups if rows]
    return found
