"""What a run that is a trial says of its search: all that a viewer needs to see the trials of a search as one. Pure."""

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
    """Which trial of which search a run is. Its parameters are the run's own, its values are told at its end."""

    search: str
    """The search's id, the same for all its trials, those of other processes that go on with it included."""
    name: str
    """What the search is called."""
    number: int
    """Counted from 0."""
    objectives: dict[str, str] = {}
    """The metrics that count, the first first, and whether each is to be ``minimize``d or ``maximize``d. None: a
    list of trials, of which none is better than another."""
    parameters: list[str] = []
    """The names of the parameters that are searched, in the order of the space."""
    logarithmic: list[str] = []
    """Those of them that are drawn from a logarithmic range."""
    in_words: list[str] = []
    """Those whose value is no plain one, and stands among the run's parameters as Python shows it."""
    most: int = 0
    """How many trials the search is to have; 0 where it has no such end."""
    may_grow: bool = False
    """Whether more can be asked for while it runs."""
    asked_more: int = 0
    """So many more than ``most`` somebody has asked for while this one ran."""
    asked_stop: bool = False
    """Somebody has asked while this one ran that the search ends."""


class SearchRequest(Struct):
    """What the program that drives a search is asked to do: to ``stop`` it, or to have so many ``more`` trials."""

    stop: bool = False
    more: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.more <= MOST_MORE:
            raise InvalidInput(f"`more` must be a number of trials up to {MOST_MORE:,}, got {self.more}", field="more")
        if self.stop == bool(self.more):
            raise InvalidInput(f"Either `stop` or `more` trials must be asked for, got {self.stop} and {self.more}")


def objective_values(returned: Any, objectives: Sequence[str]) -> dict[str, Any]:
    """What a trial's function has returned for each objective, unchecked: a number for one of one objective, one for
    each in their order, or a dict with some of them by name.
    """
    if _is_number(returned):
        returned = (returned,)
    if isinstance(returned, Mapping):
        return {metric: returned[metric] for metric in objectives if returned.get(metric) is not None}
    if isinstance(returned, (list, tuple)) and len(returned) == len(objectives):
        return {metric: value for metric, value in zip(objectives, returned, strict=True) if value is not None}
    return {}


def as_value(value: Any) -> float:
    """A value of an objective; NaN for what is no number, infinite for what is too large for one."""
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
