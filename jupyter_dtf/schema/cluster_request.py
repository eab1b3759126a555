"""The request to start a cluster: the options that all kinds share, and the rules for names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import InvalidInput
from .base import Struct
from .cluster import check_jobs, default_jobs
from .hosts import HostDesign, TaskPlace, check_places

CLUSTER_NAME = r"^[a-z0-9]([a-z0-9_-]{0,62}[a-z0-9])?$"
"""A regular expression that matches valid names of clusters and templates."""
_NAME = re.compile(CLUSTER_NAME.removesuffix("$"))


def check_name(name: str, field: str = "name") -> str:
    """Validate the name of a cluster or template, and return it. Raises InvalidInput.

    It must have 1 to 64 characters from ``a-z``, ``0-9``, ``-`` and ``_``, and a letter or digit at both ends.
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            "A name must have 1 to 64 lower-case letters, digits, hyphens or underscores, and begin and end with a "
            f"letter or digit, got {name!r}",
            field=field,
        )
    return name


GRACE_S = 60.0
"""The default time, in seconds, for which a cluster outlives its last client: long enough to restart a Jupyter server,
and short enough that the cluster of a killed kernel does not occupy a machine for long."""


DEFAULT_KIND = "local"
"""The default kind of cluster."""


class ClusterRequest(Struct):
    """A request to start a cluster. ``options`` are the options of its kind (``KindInfo.fields``)."""

    name: str = ""
    """The name of the cluster; empty: choose an unused name."""
    kind: str = DEFAULT_KIND
    jobs: dict[str, int] = msgspec.field(default_factory=default_jobs)
    options: dict[str, Any] = {}
    hosts: list[HostDesign] = []
    """The hosts in the design, which must exist; empty: the hosts that the kind provides."""
    tasks: list[TaskPlace] = []
    """Tasks with an assigned host; all other tasks are assigned to hosts automatically."""
    keep: bool = False
    """Whether to keep the cluster running until it is stopped, with or without clients."""
    grace_s: float = GRACE_S
    """Without ``keep``: end the cluster this many seconds after its last client has disconnected, but never during a
    run."""

    def __post_init__(self) -> None:
        if self.name:
            check_name(self.name)
        check_jobs(self.jobs)
        check_places(self.jobs, self.hosts, self.tasks)
        if not 0 <= self.grace_s < float("inf"):
            raise InvalidInput(f"`grace_s` must be a number of seconds >= 0, got {self.grace_s}", field="grace_s")


_PLAIN = {"bool": "boolean", "int": "integer", "float": "number", "str": "string"}

COMMON: dict[str, str] = {
    name: _PLAIN[hint]
    for name, hint in ClusterRequest.__annotations__.items()
    if hint in _PLAIN and name not in ("name", "kind")
}
"""The fields of a request that apply to every kind, such as ``keep``, with their types (as in ``FieldInfo.type``).

They can be set like the kind's options: as keyword arguments in Python, and with ``--option`` on the command line.
"""


def split_common(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split keyword arguments into two dicts: fields of the request that are in ``COMMON``, and options of its kind."""
    own = {name: value for name, value in given.items() if name in COMMON}
    return own, {name: value for name, value in given.items() if name not in COMMON}
