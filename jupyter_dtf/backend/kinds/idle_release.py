"""The options of kinds whose clusters release hosts while nothing runs and request them again for the next run.

Dask's ``Adaptive`` is not suitable: it counts Dask's tasks, and would take hosts away from a run, which is not one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...schema.api import FieldInfo

IDLE, LEAST = "idle_minutes", "least_hosts"


class Rest(NamedTuple):
    """After how long without a run a cluster releases hosts, and how many it keeps."""

    idle_s: float
    least: int


def fields() -> list[FieldInfo]:
    """Return the options. Only for kinds whose cluster has ``watch_hosts``, so that a run waits for the hosts."""
    return [
        FieldInfo(
            name=IDLE,
            title="Minutes without a run",
            type="number",
            default=0,
            minimum=0,
            help="After which hosts are given back. The next run has them again, and waits for them. 0: they stay.",
        ),
        FieldInfo(
            name=LEAST,
            title="Least number of hosts",
            type="integer",
            default=0,
            minimum=0,
            maximum=100_000,
            help="So many are kept all the same.",
        ),
    ]


def rest_of(options: Mapping[str, Any]) -> Rest | None:
    """Return the values of these options, or None if the cluster keeps its hosts."""
    idle_s = float(options.get(IDLE, 0)) * 60
    return Rest(idle_s, int(options[LEAST])) if idle_s else None
