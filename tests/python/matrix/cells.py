"""The matrix, or a part of it: trained, and held against what is expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import product

from . import layers, models, training
from .compare import distance
from .expected import expected, verdict
from .rows import Equal, Expected, Outcome, Trial
from .running import STRATEGIES, alone, together

TASKS = (2, 3)
ONE_CLIENT = ("mirrored", "pipeline")
"""Under these one process does nearly all the work: two of them at a time keep two cores busy."""


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
    trials: Sequence[Trial], strategies: Sequence[str] = STRATEGIES, tasks: Sequence[int] = TASKS
) -> Iterator[Cell]:
    """All cells of some trials, as they are known."""
    some = {strategy: _divided(trials, strategy) for strategy in strategies}
    runs = sorted(product(strategies, tasks), key=lambda run: run[0] not in ONE_CLIENT)
    with ThreadPoolExecutor(2) as two, ThreadPoolExecutor(1) as one:
        reference = two.submit(alone, trials)
        found = {run: two.submit(together, some[run[0]], *run) for run in runs if run[0] in ONE_CLIENT}
        wanted = {
            (trial.kind, row): outcome
            for trial, outcomes in zip(trials, reference.result(), strict=True)
            for row, outcome in outcomes.items()
        }
        failed = {row: outcome.error for row, outcome in wanted.items() if outcome.error}
        if failed:
            raise RuntimeError(f"One process of plain Keras must train every row, these failed: {failed}")
        wait(found.values())
        found |= {run: one.submit(together, some[run[0]], *run) for run in runs if run not in found}
        for strategy, count in runs:
            for trial, outcomes in zip(some[strategy], found[strategy, count].result(), strict=True):
                for row, outcome in outcomes.items():
                    what = expected(trial.kind, row, strategy, trial.tolerance)
                    apart, wrong = _judged(what, outcome, wanted[trial.kind, row])
                    yield Cell(trial.kind, row, strategy, count, what, apart, wrong, outcome.warnings)


def _judged(what: Expected, found: Outcome, wanted: Outcome) -> tuple[float, str]:
    """How far apart a row is from what one process has, and what is wrong with that."""
    apart, where = (0.0, "") if found.error or found.refusal else distance(found, wanted)
    return apart, verdict(what, found.error, found.refusal, apart, where)


def _divided(trials: Sequence[Trial], strategy: str) -> list[Trial]:
    """The same trials, where rows that are not to be equal are each alone: one that is refused takes no other along."""
    found = []
    for trial in trials:
        plain = [row for row in trial.rows if isinstance(expected(trial.kind, row, strategy, 0.0), Equal)]
        groups = [tuple(plain), *((row,) for row in trial.rows if row not in plain)]
        found += [replace(trial, rows=rows) for rows in groups if rows]
    return found
