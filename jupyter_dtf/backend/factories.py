"""Kinds of Dask cluster. A kind is found through the entry-point group ``jupyter_dtf.kinds``.

Every kind passes the contract in ``tests/python/backend/test_factories.py``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

import psutil

from ..errors import InvalidInput, NotFound, Unavailable
from ..schema.api import ClusterRequest, FieldInfo, KindInfo
from ..schema.hosts import HostDesign
from .gpus import read_gpus

GROUP = "jupyter_dtf.kinds"


class Kind(Protocol):
    """One kind of cluster. Describing it must not import Dask or TensorFlow; ``create`` runs in the cluster process."""

    kind: str
    title: str

    def lacks(self) -> str:
        """What is missing to start one here, in words; empty when nothing is."""

    def fields(self) -> list[FieldInfo]:
        """The options, as a form shows them."""

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        """A started ``distributed.deploy.Cluster`` (asynchronous), its scheduler up, with no worker yet.

        ``options`` have been checked against ``fields``. ``directory`` is private and removed with the cluster.
        """

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        """How many Dask workers a cluster of these jobs has."""

    def promised(self, options: Mapping[str, Any]) -> list[HostDesign]:
        """The hosts that a cluster with these options has, as far as that is known beforehand."""


class LocalKind:
    """Dask workers on this machine."""

    kind = "local"
    title = "This machine"

    def lacks(self) -> str:
        if not sys.platform.startswith("linux"):
            return "Tasks are forked from a warm process, which needs Linux"
        if importlib.util.find_spec("tensorflow") is None:
            return "TensorFlow is not installed: pip install jupyter-dtf[cpu] or jupyter-dtf[gpu]"
        return ""

    def fields(self) -> list[FieldInfo]:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return [
            FieldInfo(
                name="hosts",
                title="Dask workers",
                type="integer",
                default=1,
                minimum=1,
                maximum=64,
                help="Processes that tasks run under. One serves any number of tasks; more are for Dask's own work.",
            ),
            FieldInfo(
                name="threads_per_host",
                title="Threads per Dask worker",
                type="integer",
                default=0,
                minimum=0,
                maximum=1024,
                help=f"Divided among the tasks of a run. 0: this machine's {cores} cores divided among the workers.",
            ),
            FieldInfo(
                name="memory_per_host_bytes",
                title="Memory per Dask worker",
                type="bytes",
                default=0,
                minimum=0,
                help="Dask's limit for its own data. 0: this machine's memory divided among the workers.",
            ),
        ]

    async def create(self, options: Mapping[str, Any], security: Any, directory: Path) -> Any:
        from distributed import LocalCluster

        hosts = options["hosts"]
        cores = len(os.sched_getaffinity(0))
        return await LocalCluster(
            n_workers=0,
            threads_per_worker=options["threads_per_host"] or max(1, cores // hosts),
            memory_limit=options["memory_per_host_bytes"] or f"{1 / hosts:.6f}",
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            security=security,
            asynchronous=True,
            local_directory=str(directory),
        )

    def hosts(self, options: Mapping[str, Any], jobs: Mapping[str, int]) -> int:
        return int(options["hosts"])

    def promised(self, options: Mapping[str, Any]) -> list[HostDesign]:
        hosts = options["hosts"]
        cores, memory = len(os.sched_getaffinity(0)), psutil.virtual_memory().total
        return [
            HostDesign(
                name=str(number),  # as LocalCluster names its workers
                cpus=options["threads_per_host"] or max(1, cores // hosts),
                memory_bytes=options["memory_per_host_bytes"] or memory // hosts,
                gpus=[gpu.memory_bytes for gpu in read_gpus()],
            )
            for number in range(hosts)
        ]


def kinds() -> dict[str, Kind]:
    """Every installed kind by its name."""
    found: dict[str, Kind] = {}
    for point in entry_points(group=GROUP):
        kind: Kind = point.load()()
        found[kind.kind] = kind
    found.setdefault(LocalKind.kind, LocalKind())
    return found


def describe_kinds() -> list[KindInfo]:
    """The kinds as a form shows them."""
    return [
        KindInfo(kind=kind.kind, title=kind.title, available=not kind.lacks(), lacks=kind.lacks(), fields=kind.fields())
        for kind in kinds().values()
    ]


def find_kind(name: str) -> Kind:
    """Raises NotFound for a kind that is not installed, Unavailable for one that lacks something."""
    found = kinds()
    if name not in found:
        raise NotFound(f"The kinds of cluster here are {', '.join(found)}. Received: {name!r}")
    if lacking := found[name].lacks():
        raise Unavailable(f"A cluster of kind {name} cannot start here: {lacking}")
    return found[name]


def options_of(kind: Kind, request: ClusterRequest) -> dict[str, Any]:
    """Every option of a request, as ``check_options``. Hosts that were drawn say how many ``hosts`` there are."""
    drawn = len(request.hosts)
    counts = any(field.name == "hosts" and field.type == "integer" for field in kind.fields())
    if not (drawn and counts):
        return check_options(kind, request.options)
    if (wanted := request.options.get("hosts", drawn)) != drawn:
        raise InvalidInput(
            f"The option hosts is as many as were drawn, {drawn}. Received: {wanted!r}", field="options.hosts"
        )
    return check_options(kind, {**request.options, "hosts": drawn})


def check_options(kind: Kind, options: Mapping[str, Any]) -> dict[str, Any]:
    """Every option of the kind, defaults filled in. Raises InvalidInput naming the field (``options.hosts``)."""
    fields = {field.name: field for field in kind.fields()}
    for name in options:
        if name not in fields:
            raise InvalidInput(
                f"The options of kind {kind.kind} are {', '.join(fields)}. Received: {name!r}", field=f"options.{name}"
            )
    return {name: _check(field, options.get(name, field.default)) for name, field in fields.items()}


_TYPES: dict[str, tuple[type, ...]] = {
    "integer": (int,),
    "bytes": (int,),
    "number": (int, float),
    "string": (str,),
    "choice": (str,),
    "boolean": (bool,),
}


def _check(field: FieldInfo, value: Any) -> Any:
    where = f"options.{field.name}"
    wrong_kind = not isinstance(value, _TYPES[field.type]) or (isinstance(value, bool) and field.type != "boolean")
    if wrong_kind:
        raise InvalidInput(f"{field.title} is of type {field.type}. Received: {value!r}", field=where)
    if field.minimum is not None and value < field.minimum:
        raise InvalidInput(f"{field.title} is at least {field.minimum:g}. Received: {value!r}", field=where)
    if field.maximum is not None and value > field.maximum:
        raise InvalidInput(f"{field.title} is at most {field.maximum:g}. Received: {value!r}", field=where)
    if field.choices and value not in field.choices:
        raise InvalidInput(f"{field.title} is one of {', '.join(field.choices)}. Received: {value!r}", field=where)
    return value
