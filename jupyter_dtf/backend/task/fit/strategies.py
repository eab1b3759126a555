"""Every strategy with its room: each folder beside this file is one, and says which ``STRATEGY`` it is for.

A new one has its struct in ``schema/strategy.py`` and its name for people in ``jupyter_dtf/__init__.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from ....errors import InvalidInput
from ....schema.strategy import Strategy
from .checks import Asked, Checks
from .job import FitJob


@dataclass(frozen=True)
class Room:
    """``train(job, ctx)`` is a task's part of a fit: a FitResult on the chief, None elsewhere."""

    train: Callable[[FitJob, Any], Any]
    checks: Checks


def _rooms() -> Iterator[tuple[type[Any], Room]]:
    for found in iter_modules([str(Path(__file__).parent)]):
        if found.ispkg:
            room = import_module(f".{found.name}", __package__)
            if hasattr(room, "STRATEGY"):  # what else has a folder here is of all strategies
                yield room.STRATEGY, Room(room.train, room.CHECKS)


ROOMS: dict[type[Any], Room] = dict(_rooms())


def room_of(strategy: Strategy) -> Room:
    """The room of a strategy, which has one."""
    return ROOMS[type(strategy)]


def validate(asked: Asked, model: Any = None) -> None:
    """As ``Checks.validate``, of the strategy that is asked for."""
    room_of(asked.strategy).checks.validate(asked, model)


def refusals(asked: Asked, model: Any) -> list[InvalidInput]:
    """As ``Checks.refusals``."""
    return room_of(asked.strategy).checks.refusals(asked, model)
