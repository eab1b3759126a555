"""The trial that a run executes, and its search: everything a viewer needs to show the trials of a search together."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InvalidInput
from .base import PeerStruct, Struct

MINIMIZE, MAXIMIZE = "minimize", "maximize"
MOST_MORE = 100_000


class TrialInfo(PeerStruct):
    """The trial that a run executes, and its search. The trial's parameters are those of the run.

    The trial's values are reported at its end.
    """

    search: str
    """The id of the search, which is the same for all its trials, including those of processes that continue it."""
    name: str
    """The name of the search."""
    number: int
    """The number of the trial, counted from 0."""
    objectives: dict[str, str] = {}
    """The objectives, most important first, each with ``minimize`` or ``maximize``. Empty: trials are not ranked."""
    parameters: list[str] = []
    """The names of the searched parameters, in the order of the space."""
    logarithmic: list[str] = []
    """The names of the parameters that are sampled from a logarithmic range."""
    in_words: list[str] = []
    """The names of the parameters whose values are not plain data: the run's parameters contain their ``repr``."""
    most: int = 0
    """The number of trials of the search; 0 if it is unlimited."""
    may_grow: bool = False
    """Whether more trials can be requested while the search is running."""
    asked_more: int = 0
    """The number of trials beyond ``most`` that were requested while this trial was running."""
    asked_stop: bool = False
    """Whether a stop of the search was requested while this trial was running."""


class SearchRequest(Struct):
    """A request to the program that drives a search: to ``stop`` the search, or to run ``more`` additional trials."""

    stop: bool = False
    more: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.more <= MOST_MORE:
            raise InvalidInput(f"`more` must be from 0 to {MOST_MORE:,}, got {self.more}", field="more")
        if self.stop == bool(self.more):
            raise InvalidInput(
                f"Exactly one of `stop` and `more` must be set, got stop={self.stop} and more={self.more}"
            )


def objective_values(returned: Any, objectives: Sequence[str]) -> dict[str, Any]:
    """Extract the value of each objective, unchecked, from the return value of a trial's function.

    The function returns a number if there is one objective, a list with a value for each, or a dict of values for some
    of them, keyed by name. For any other return value, the result is empty.
    """
    if _is_number(returned):
        returned = (returned,)
    if isinstance(returned, Mapping):
        return {metric: returned[metric] for metric in objectives if returned.get(metric) is not None}
    if isinstance(returned, (list, tuple)) and len(returned) == len(objectives):
        return {metric: value for metric, value in zip(objectives, returned, strict=True) if value is not None}
    return {}


def as_value(value: Any) -> float:
    """Convert the value of an objective to a float: NaN if it is not a number, infinite if it is too large."""
    try:
        return float(value) if _is_number(value) else math.nan
    except OverflowError:
        return math.inf


def _is_number(value: Any) -> bool:
    """Return whether a value is a real number of Python or NumPy, or an array or tensor of shape ()."""
    if isinstance(value, bool):
        return False
    is_scalar = getattr(value, "shape", None) == () and getattr(value, "dtype", None) not in (bool, object)
    return isinstance(value, numbers.Real) or (is_scalar and hasattr(value, "__float__"))
