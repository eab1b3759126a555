"""What a cell of the matrix consists of: a row, its outcome in one process and with several tasks, and the expected
one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Branch = Callable[[Mapping[str, Any]], tuple[Any, Any]]
"""Takes the inputs of a group, keyed by name; returns the output of one row and its loss."""


@dataclass(frozen=True)
class Trial:
    """One training run, which covers one or several rows.

    ``model(rows)`` returns a compiled model for some of the rows. The weights of a row must not depend on the other
    rows. Everything that belongs to a row has the row's slug in its name: in the first part of a variable's path, and
    in a key of the history.
    """

    kind: str
    rows: tuple[str, ...]
    model: Callable[[Sequence[str]], Any]
    fit: Callable[[Sequence[str]], dict[str, Any]]
    """Returns the arguments of ``keras.Model.fit`` for some of the rows."""
    callbacks: Callable[[str], list[Any]] = field(default=lambda directory: [])
    """Returns the callbacks, given a directory in which they may write."""
    tolerance: float = 3e-5
    """The largest permitted difference in weights and metrics, relative to the largest value."""
    is_whole: bool = False
    """Whether all variables and the whole history belong to the trial's only row."""


@dataclass(frozen=True)
class Outcome:
    """The result of training a row: weights keyed by path, and the history keyed by name; or the error that ended
    training.
    """

    weights: dict[str, Any] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=dict)
    refusal: str = ""
    by_all: bool = False
    """Whether all tasks refused the row before anything started, so that no task is left waiting for another."""
    error: str = ""
    warnings: tuple[str, ...] = ()
    """The notes in the run's events, except those of the level info."""


@dataclass(frozen=True)
class Equal:
    """The weights of one process, up to rounding."""

    tolerance: float | None = None


@dataclass(frozen=True)
class Refused:
    """An error before the first step, with a message that contains ``text``. ``why`` is the reason given in the
    documentation.
    """

    text: str
    why: str


@dataclass(frozen=True)
class Differs:
    """Weights that differ from those of one process by at most ``limit``, relative to the largest value. ``why`` is the
    reason given in the documentation.
    """

    limit: float
    why: str


Expected = Equal | Refused | Differs


def slug(row: str) -> str:
    """Return a row's name in a form that can be part of a layer's name."""
    return re.sub("[^a-z0-9]+", "_", row.lower()).strip("_")
