"""The options of kinds whose clusters release hosts while nothing runs and request them again for the next run.

Dask's ``Adaptive`` is not suitable: it counts Dask's tasks, and would release the hosts of a run, because a run is not
a Dask task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...schema.api import FieldInfo

IDLE, LEAST = "idle_minutes", "least_hosts"


class Rest(NamedTuple):
    """The time without a run after which a cluster releases hosts, and the number of hosts that it keeps."""

    idle_s: float
    least: int


def fields() -> list[FieldInfo]:
    """Return the options as form fields.

    The kind's cluster must have ``watch_hosts``, because a run waits for the hosts that this method reports.
    """
    return [
        FieldInfo(
            name=IDLE,
            title="Minutes without a run",
            type="number",
            default=0,
            minimum=0,
            help="Hosts are released after this time. The next run requests them again and waits. 0: never.",
        ),
        FieldInfo(
            name=LEAST,
            title="Minimum number of hosts",
            type="integer",
            default=0,
            minimum=0,
            maximum=100_000,
            help="The number of hosts that are never released.",
        ),
    ]


def rest_of(options: Mapping[str, Any]) -> Rest | None:
    """Return the values of these options, or None if the cluster never releases hosts."""
    idle_s = float(options.get(IDLE, 0)) * 60
    return Rest(idle_s, int(options[LEAST])) if idle_s else None
