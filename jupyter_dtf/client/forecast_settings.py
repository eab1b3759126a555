"""Converts the keyword arguments of a forecast to ``ForecastSettings``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..schema.arguments import is_integer, plain
from ..schema.base import convert
from ..schema.forecast import ForecastSettings
from ..schema.strategy import AllReduce, ParameterServer, Pipeline, parse_strategy


def settings_of(strategy: Any, tasks: int | Sequence[int] | None, **settings: Any) -> ForecastSettings:
    """Convert keyword arguments to settings. Options of ``strategy`` are the defaults. Raises InvalidInput."""
    own: dict[str, Any] = {"strategy": "pipeline"}
    found = None if strategy == "pipeline" else parse_strategy(strategy)
    if found is not None:
        own = {"strategy": found.name}
    if isinstance(found, AllReduce):
        own["compression"] = found.compression
    elif isinstance(found, ParameterServer):
        own |= {"sync": found.sync, "backup_workers": found.backup_workers}
    elif isinstance(found, Pipeline):
        own["microbatches"] = found.microbatches
        if found.replicas > 1:
            own["replicas"] = found.replicas
    if tasks is not None:
        given: Any = tasks
        own["tasks"] = [given] if is_integer(given) else list(given)
    link = settings.pop("link", None)
    made = convert(plain({**own, **settings}), ForecastSettings)
    return made if link is None else msgspec.structs.replace(made, link=link)
