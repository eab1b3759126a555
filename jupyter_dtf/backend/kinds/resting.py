"""The options of a kind whose clusters give hosts back while nothing runs, and have them again for the next run.

Not Dask's ``Adaptive``: it counts Dask's tasks, and would take the hosts from under a run, which is none of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...schema.api import FieldInfo

IDLE, LEAST = "idle_minutes", "least_hosts"


class Rest(NamedTuple):
    """When a cluster rests, and with how many hosts."""

    idle_s: float
    least: int


def fields() -> list[FieldInfo]:
    """For kinds whose cluster has ``watch_hosts``: a run waits for the hosts that it tells of."""
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
    """What the options say of it; None: the cluster keeps its hosts."""
    idle_s = float(options.get(IDLE, 0)) * 60
    return Rest(idle_s, int(options[LEAST])) if idle_s else None
