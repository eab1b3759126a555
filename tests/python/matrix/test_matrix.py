"""Trains a small part of the matrix, and checks that it covers every part of Keras. ``make matrix`` trains all."""

from __future__ import annotations

import re
from collections.abc import Iterable

import keras
import pytest

from jupyter_dtf.schema.metrics import direction

from . import layers, models, table, training
from .cells import Cell, cells
from .expected import RULES
from .rows import Trial
from .running import STRATEGIES
from .table import PAGE

KERAS_OF_THE_TABLE = "3.15"

QUICK = {
    "optimizers": ("Adam", "Nadam", "Muon", "Adadelta", "SGD, moving average overwrites every 3 steps"),
    "models": (
        "transformer, positions and masks",
        "Normalization inside",
        "StringLookup inside",
        "two losses with the same name",
        "tensors compared with ==",
        "spectral normalization",
        "distillation, custom train_step",
    ),
    "layers": ("IntegerLookup", "Embedding"),
}


def quick() -> list[Trial]:
    """Return trials of rows that were once wrong."""
    found = [
        trial for trial in training.trials() if trial.kind == "optimizers" and trial.rows[0] in QUICK["optimizers"]
    ]
    found += [trial for trial in models.trials() if trial.rows[0] in QUICK["models"]]
    return [*found, *layers.trials(QUICK["layers"])]


@pytest.fixture(scope="module")
def trained() -> list[Cell]:
    return list(cells(quick(), tasks=(2,)))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_one_process_makes_of_it_or_what_is_documented(strategy: str, trained: list[Cell]) -> None:
    mine = [cell for cell in trained if cell.strategy == strategy]
    assert len(mine) == sum(map(len, QUICK.values()))
    assert not [f"{cell.row}: {cell.wrong}" for cell in mine if cell.wrong]


def missing(module: str, base: str, *known: Iterable[str]) -> set[str]:
    """Return the names that Keras exports and the matrix does not contain."""
    return set(training.exported(module, base)) - {name for names in known for name in names}


def test_every_part_of_keras_has_a_row() -> None:
    assert not missing("optimizers", "Optimizer", training.OPTIMIZERS)
    assert not missing("losses", "Loss", training.LOSSES)
    assert not missing("metrics", "Metric", training.METRICS, training.METRICS_OUTSIDE)
    assert not missing("callbacks", "Callback", training.CALLBACKS, training.CALLBACKS_OUTSIDE)
    assert not missing("layers", "Layer", layers.every(), layers.OUTSIDE)
    assert len(models.MODELS) >= 40


@pytest.mark.parametrize("name", training.METRICS)
def test_the_better_direction_of_every_metric_is_keras_s(name: str) -> None:
    metric = getattr(keras.metrics, name)(**training.METRICS[name][0])
    # ModelCheckpoint's mode "auto" uses this attribute in Keras 3.15. There is no public one.
    assert direction(metric.name) == {"up": 1, "down": -1}.get(getattr(metric, "_direction", ""), 0)


def test_every_rule_speaks_of_a_row() -> None:
    names = [f"{trial.kind}: {row}" for trial in (*training.trials(), *models.trials(), *layers.trials())
             for row in trial.rows]  # fmt: skip
    assert not [rule.rows for rule in RULES if not any(re.fullmatch(rule.rows, name) for name in names)]


@pytest.mark.skipif(not keras.__version__.startswith(KERAS_OF_THE_TABLE), reason="the table is that of another Keras")
def test_the_documentation_has_the_table() -> None:
    assert PAGE.read_text() == table.written(PAGE.read_text())
