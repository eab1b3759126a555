"""The search of a run that is a trial: everything a viewer needs to show the trials of a search together. Pure."""

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
    """Which trial of which search a run is. Its parameters are the run's; its values are reported at its end."""

    search: str
    """The search's id, the same for all its trials, including those of processes that continue it."""
    name: str
    """The name of the search."""
    number: int
    """Counted from 0."""
    objectives: dict[str, str] = {}
    """The objectives, most important first, each with ``minimize`` or ``maximize``. Empty: trials are not ranked."""
    parameters: list[str] = []
    """The names of the searched parameters, in the order of the space."""
    logarithmic: list[str] = []
    """Those that are sampled from a logarithmic range."""
    in_words: list[str] = []
    """Those whose values are not plain data, so that the run's parameters contain their ``repr``."""
    most: int = 0
    """The number of trials of the search; 0 if it is not limited."""
    may_grow: bool = False
    """Whether more trials can be requested while it runs."""
    asked_more: int = 0
    """The number of trials beyond ``most`` that were requested while this one ran."""
    asked_stop: bool = False
    """Whether the end of the search was requested while this one ran."""


class SearchRequest(Struct):
    """A request to the program that drives a search: to ``stop`` it, or to run this many ``more`` trials."""

    stop: bool = False
    more: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.more <= MOST_MORE:
            raise InvalidInput(f"`more` must be a number of trials up to {MOST_MORE:,}, got {self.more}", field="more")
        if self.stop == bool(self.more):
            raise InvalidInput(f"Either `stop` or `more` trials must be asked for, got {self.stop} and {self.more}")


def objective_values(returned: Any, objectives: Sequence[str]) -> dict[str, Any]:
    """The unchecked values that a trial's function returned for each objective.

    It returns a number if there is one objective, a list with one for each, or a dict with some of them by name.
    """
    if _is_number(returned):
        returned = (returned,)
    if isinstance(returned, Mapping):
        return {metric: returned[metric] for metric in objectives if returned.get(metric) is not None}
    if isinstance(returned, (list, tuple)) and len(returned) == len(objectives):
        return {metric: value for metric, value in zip(objectives, returned, strict=True) if value is not None}
    return {}


def as_value(value: Any) -> float:
    """A value of an objective; NaN if it is not a number, infinite if it is too large."""
    try:
        return float(value) if _is_number(value) else math.nan
    except OverflowError:
        return math.inf


def _is_number(value: Any) -> bool:
    """Whether it is a real number: Python's, NumPy's, or an array or a tensor of shape ()."""
    if isinstance(value, bool):
        return False
    is_scalar = getattr(value, "shape", None) == () and getattr(value, "dtype", None) not in (bool, object)
    return isinstance(value, numbers.Real) or (is_scalar and hasattr(value, "__float__"))
