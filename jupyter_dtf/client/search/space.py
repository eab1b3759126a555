"""The parameter space of a search: Optuna's distributions, and shorthands for them."""

from __future__ import annotations

import itertools
import numbers
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...errors import InvalidInput
from ...schema.base import MAX_INTEGER
from .optuna_here import optuna

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

MOST_COMBINATIONS = 100_000
MAX_FLOAT = sys.float_info.max


def as_space(space: Any) -> dict[str, BaseDistribution]:
    """Return a distribution for each parameter of a user's ``space``. Raises InvalidInput."""
    if not isinstance(space, Mapping) or not space:
        raise InvalidInput(f"`space` must map parameters to their values, got {space!r:.200}", field="space")
    for name in space:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"The parameters in `space` must have names, got {name!r:.100}", field="space")
    return {name: _distribution(name, given) for name, given in space.items()}


def _distribution(name: str, given: Any) -> BaseDistribution:
    """Return the distribution of one parameter.

    A list contains the choices; ``(low, high)`` and ``(low, high, "log")`` are ranges with both bounds included, of
    integers if both bounds are integers; a ``range`` stands for its integers.
    """
    kinds = optuna().distributions
    found: BaseDistribution
    try:
        match given:
            case kinds.BaseDistribution():
                found = given
                return found
            case list() if given:
                found = kinds.CategoricalDistribution(given)
                return found
            case range() if given:
                low, high = sorted((given[0], given[-1]))
                _check_bounds(low, high)
                found = kinds.IntDistribution(low, high, step=abs(given.step))
                return found
            case (low, high) if _are_numbers(low, high):
                return _range(low, high, log=False)
            case (low, high, "log") if _are_numbers(low, high):
                return _range(low, high, log=True)
    except ValueError as error:
        why = f"{error}".rstrip(".")
        raise InvalidInput(f"`space[{name!r}]` is invalid: {why}, got {given!r:.200}", field="space") from None
    raise InvalidInput(
        f"`space[{name!r}]` must be a list of choices, (low, high), (low, high, 'log'), a range or one of "
        f"optuna.distributions, got {given!r:.200}",
        field="space",
    )


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, numbers.Real) and not isinstance(value, bool) for value in values)


def _check_bounds(low: Any, high: Any) -> None:
    """Raise ValueError for bounds between which nothing can be drawn, or which databases cannot store."""
    if isinstance(low, numbers.Integral) and isinstance(high, numbers.Integral):
        if not all(-MAX_INTEGER <= int(bound) < MAX_INTEGER for bound in (low, high)):
            raise ValueError("integers must be from -2**63 to 2**63 - 1")
    elif not all(-MAX_FLOAT <= bound <= MAX_FLOAT for bound in (low, high)):
        raise ValueError("the bounds must be finite")


def _range(low: Any, high: Any, *, log: bool) -> BaseDistribution:
    _check_bounds(low, high)
    kinds = optuna().distributions
    if isinstance(low, numbers.Integral) and isinstance(high, numbers.Integral):
        found: BaseDistribution = kinds.IntDistribution(int(low), int(high), log=log)
    else:
        found = kinds.FloatDistribution(float(low), float(high), log=log)
    return found


def combinations(space: Mapping[str, BaseDistribution]) -> list[dict[str, Any]]:
    """Return all combinations of a space for a grid search. Raises InvalidInput if it is continuous or too large."""
    axes = {name: _values(name, distribution) for name, distribution in space.items()}
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MOST_COMBINATIONS:
        raise InvalidInput(
            f"`space` must have at most {MOST_COMBINATIONS} combinations for a grid, got {count}", field="space"
        )
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def _values(name: str, distribution: BaseDistribution) -> list[Any]:
    kinds = optuna().distributions
    if isinstance(distribution, kinds.CategoricalDistribution):
        return list(distribution.choices)
    if isinstance(distribution, kinds.IntDistribution) and not distribution.log:
        return list(range(distribution.low, distribution.high + 1, distribution.step))
    if isinstance(distribution, kinds.FloatDistribution) and distribution.step is not None:
        steps = round((distribution.high - distribution.low) / distribution.step)
        return [distribution.low + number * distribution.step for number in range(steps + 1)]
    raise InvalidInput(f"`space[{name!r}]` must have choices or a step for a grid, got {distribution!r}", field="space")
