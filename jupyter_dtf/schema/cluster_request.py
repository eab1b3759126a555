"""A cluster to start: what all kinds are asked, and what a name may be."""

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
"""The name of a cluster or a template. A regular expression, for one whole line."""
_NAME = re.compile(CLUSTER_NAME.removesuffix("$"))


def check_name(name: str, field: str = "name") -> str:
    """A cluster's or template's name: 1 to 64 of ``a-z 0-9 - _``, beginning and ending with a letter or digit."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            "A name has 1 to 64 lower-case letters, digits, hyphens or underscores, and begins and ends with a letter "
            f"or digit. Received: {name!r}",
            field=field,
        )
    return name


GRACE_S = 60.0
"""How long a cluster stays after its last client has gone, where nothing else was said: a Jupyter server is restarted
in less, and what a killed kernel has left does not hold a machine for long."""


DEFAULT_KIND = "local"
"""The kind of cluster where nothing else was said."""


class ClusterRequest(Struct):
    """A cluster to start. ``options`` are those of its kind (``KindInfo.fields``)."""

    name: str = ""
    """Empty: a free name is chosen."""
    kind: str = DEFAULT_KIND
    jobs: dict[str, int] = msgspec.field(default_factory=default_jobs)
    options: dict[str, Any] = {}
    hosts: list[HostDesign] = []
    """The hosts that were drawn, which have to be there; empty: whatever hosts the kind makes."""
    tasks: list[TaskPlace] = []
    """Tasks with a place of their own; the others go where there is room."""
    keep: bool = False
    """Stay until stopped, with or without clients."""
    grace_s: float = GRACE_S
    """Without ``keep``: end this long after the last client has gone, never during a run."""

    def __post_init__(self) -> None:
        if self.name:
            check_name(self.name)
        check_jobs(self.jobs)
        check_places(self.jobs, self.hosts, self.tasks)
        if not 0 <= self.grace_s < float("inf"):
            raise InvalidInput(f"grace_s is a number of seconds from 0. Received: {self.grace_s}", field="grace_s")


_PLAIN = {"bool": "boolean", "int": "integer", "float": "number", "str": "string"}

COMMON: dict[str, str] = {
    name: _PLAIN[hint]
    for name, hint in ClusterRequest.__annotations__.items()
    if hint in _PLAIN and name not in ("name", "kind")
}
"""The fields of a request that stand beside its kind's options, and their types as ``FieldInfo.type`` has them.

Python's keyword arguments and ``--option`` of the command line take them as they take the options.
"""


def split_common(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was given by name, as the request's own fields and its kind's options."""
    own = {name: value for name, value in given.items() if name in COMMON}
    return own, {name: value for name, value in given.items() if name not in COMMON}
