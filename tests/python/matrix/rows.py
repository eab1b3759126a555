"""What a cell of the matrix is: a row, trained by one process and by several tasks, and what has to come of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Branch = Callable[[Mapping[str, Any]], tuple[Any, Any]]
"""Given the inputs of a group by name, the output of one row and its loss."""


@dataclass(frozen=True)
class Trial:
    """One training that shows one or several rows at once.

    ``model(rows)`` returns a compiled model for some of the rows, whose weights do not depend on which the others are.
    What belongs to a row has its slug in its name: the first part of a variable's path, and a key of the history.
    """

    kind: str
    rows: tuple[str, ...]
    model: Callable[[Sequence[str]], Any]
    fit: Callable[[Sequence[str]], dict[str, Any]]
    """Arguments of ``keras.Model.fit``, for some of the rows."""
    callbacks: Callable[[str], list[Any]] = field(default=lambda directory: [])
    """The callbacks, given a directory that they may write to."""
    tolerance: float = 3e-5
    """How far apart weights and metrics may be, relative to the largest of them."""
    is_whole: bool = False
    """Whether the one row has all variables and all of the history."""


@dataclass(frozen=True)
class Outcome:
    """What became of one row: weights by path, history by name; or the error that ended it."""

    weights: dict[str, Any] = field(default_factory=dict)
    history: dict[str, list[float]] = field(default_factory=dict)
    refusal: str = ""
    by_all: bool = False
    """Whether it was refused before anything started, so that no task is left waiting for another."""
    error: str = ""
    warnings: tuple[str, ...] = ()
    """What the run said besides, above a mere remark."""


@dataclass(frozen=True)
class Equal:
    """The weights of one process, up to rounding."""

    tolerance: float | None = None


@dataclass(frozen=True)
class Refused:
    """An error before the first step, whose text has this in it. ``why``: in the words of the documentation."""

    text: str
    why: str


@dataclass(frozen=True)
class Differs:
    """Other weights than one process's, by ``limit`` at most, relative to the largest; ``why``, for the docs."""

    limit: float
    why: str


Expected = Equal | Refused | Differs


def slug(row: str) -> str:
    """A row's name as part of the name of a layer."""
    return re.sub("[^a-z0-9]+", "_", row.lower()).strip("_")
