"""Finds the implementations of all strategies: the subpackages of this package that define ``STRATEGY``.

A new strategy also needs a struct in ``schema/strategy.py`` and a public name in ``jupyter_dtf/__init__.py``.
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
class Implementation:
    """A strategy's implementation. ``train(job, ctx)`` returns a FitResult on the chief, None on the other tasks."""

    train: Callable[[FitJob, Any], Any]
    checks: Checks


def _implementations() -> Iterator[tuple[type[Any], Implementation]]:
    for found in iter_modules([str(Path(__file__).parent)]):
        if found.ispkg:
            package = import_module(f".{found.name}", __package__)
            if hasattr(package, "STRATEGY"):  # other subpackages are common to all strategies
                yield package.STRATEGY, Implementation(package.train, package.CHECKS)


IMPLEMENTATIONS: dict[type[Any], Implementation] = dict(_implementations())


def implementation_of(strategy: Strategy) -> Implementation:
    """Return the implementation of a strategy."""
    return IMPLEMENTATIONS[type(strategy)]


def validate(asked: Asked, model: Any = None) -> None:
    """Run ``Checks.validate`` of the strategy in ``asked``."""
    implementation_of(asked.strategy).checks.validate(asked, model)


def refusals(asked: Asked, model: Any) -> list[InvalidInput]:
    """Return the result of ``Checks.refusals`` of the strategy in ``asked``."""
    return implementation_of(asked.strategy).checks.refusals(asked, model)
