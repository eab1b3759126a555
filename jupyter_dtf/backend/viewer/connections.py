"""Connection files: how a cluster of this user is found and reached. Readable by their owner alone.

A file is reserved by whoever starts a cluster (state ``starting``) and from then on written by the cluster process
alone.

Clusters of other versions have files here too, and are to be seen and stopped whatever else their files say: ``name``,
``kind``, ``state``, ``pid``, ``pid_created``, ``created``, ``token``, ``directories`` and ``speech`` mean in every
version what they mean here, and a cluster process ends in order when it is sent SIGTERM. Of the rest, a value that
cannot be read is left at its default, and a key that is not known stays in the file when something else is changed.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec
import psutil

from ...errors import Conflict, NotFound, Unavailable
from ...schema import private, protocol
from ...schema.api import ClusterState
from ...schema.base import PeerStruct, with_unknown
from ...schema.cluster_request import check_name
from ...schema.protocol import Speech
from ...schema.room import FULL
from ..machine import paths
from ..machine.processes import stat_of


class Connection(PeerStruct):
    """What a connection file says."""

    name: str
    kind: str
    state: ClusterState
    pid: int
    """The cluster process."""
    pid_created: float
    """When that process was created, in seconds since the epoch: a process id is used again."""
    created: float
    pid_started: int = 0
    """As ``pid_created``, in the kernel's ticks since its start: they stay when somebody sets the clock. 0: unknown."""
    started_by: int = 0
    """The process that started it, which is told how it ends."""
    jobs: dict[str, int] = {}
    message: str = ""
    address: str = ""
    """The Dask scheduler, ``tls://host:port``; ``tcp://`` where somebody else runs it without certificates."""
    ca: str = ""
    cert: str = ""
    key: str = ""
    scope: str = ""
    """What the names of its operations end in there (``schema.operations``)."""
    token: str = ""
    """What its processes are known by, and names its directories (``family``)."""
    directories: list[str] = []
    """Those on the machine of the cluster process."""
    speech: Speech = msgspec.field(default_factory=protocol.ours)
    """The protocols that the cluster process speaks, and its version of jupyter_dtf."""

    @property
    def is_alive(self) -> bool:
        """Whether the cluster process is there."""
        if self.pid_started:
            stat = stat_of(self.pid)
            return stat is not None and stat.started == self.pid_started and not stat.has_ended
        try:
            process = psutil.Process(self.pid)
            return abs(process.create_time() - self.pid_created) < 2 and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, ValueError, OverflowError):  # a number that no process has
            return False

    @property
    def refusal(self) -> str:
        """Why this version cannot talk to the cluster, and what to do; empty if it can, or nobody does any more."""
        gone = self.state in (ClusterState.FAILED, ClusterState.LOST)
        return "" if gone else protocol.cluster_refusal(self.name, self.speech)

    def is_of(self, pid: int) -> None:
        """From now on that is the cluster process. Raises psutil.NoSuchProcess."""
        stat = stat_of(pid)
        self.pid, self.pid_created = pid, psutil.Process(pid).create_time()
        self.pid_started = stat.started if stat is not None else 0


def path_of(name: str) -> Path:
    """The connection file of a cluster. Raises InvalidInput if there can be no such name."""
    return paths.connections_dir() / f"{check_name(name)}.json"


def log_of(name: str) -> Path:
    """The output of the cluster process."""
    return path_of(name).with_suffix(".log")


def read(name: str) -> Connection:
    """Raises NotFound."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError, RecursionError):  # whatever is in the file
        return _as_connection(_raw(path_of(name)))
    raise NotFound(f"There is no cluster of that name. Received: {name!r}")


def _raw(path: Path) -> dict[str, Any]:
    """Raises OSError, ValueError, RecursionError or msgspec.MsgspecError for whatever is in the file."""
    return msgspec.json.decode(private.read_file(path), type=dict[str, Any])


def _as_connection(raw: dict[str, Any]) -> Connection:
    """What a file of any version says. Raises msgspec.ValidationError for what is no connection file."""
    raw = {"speech": {}, **raw}  # without one, it is of before there was a number
    if not isinstance(raw["speech"], dict):
        raw["speech"] = {}
    try:
        return msgspec.convert(raw, Connection)
    except msgspec.ValidationError:
        if protocol.ours().understands(protocol.theirs(raw["speech"])):
            raise  # it is as this version writes them, and damaged
    return msgspec.convert({"state": ClusterState.RUNNING, **_readable(raw)}, Connection)


def _readable(raw: dict[str, Any]) -> dict[str, Any]:
    """Those fields of another version's file that have the form that they have here."""
    found = {}
    for field in msgspec.structs.fields(Connection):
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            found[field.name] = msgspec.convert(raw[field.name], field.type)
    return found


def read_all() -> dict[str, Connection]:
    """Every connection file that can be read, alive or not, by name."""
    found: dict[str, Connection] = {}
    try:
        directory = paths.connections_dir()
    except Unavailable:  # it is not there and cannot be made: nobody has started anything
        return found
    for path in sorted(directory.glob("*.json")):
        with contextlib.suppress(NotFound, ValueError):
            found[path.stem] = read(path.stem)
    return found


def write(connection: Connection) -> None:
    """Replace the cluster's file, whole or not at all; on a full disk, in its own place. Raises OSError."""
    path = path_of(connection.name)
    aside = path.with_suffix(f".{os.getpid()}.new")
    data = msgspec.json.encode(with_unknown(_of_same_cluster(path, connection), connection))
    try:
        with private.open_file(aside) as file:
            file.write(data)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        if error.errno not in FULL or not path.exists() or path.stat().st_size < len(data):
            raise
        with path.open("r+b") as file:  # the room that it has already
            file.write(data)
            file.truncate()


def _of_same_cluster(path: Path, connection: Connection) -> dict[str, Any]:
    """What is in the file that is replaced, where it is of that very cluster."""
    with contextlib.suppress(OSError, msgspec.MsgspecError, ValueError, RecursionError):
        raw = _raw(path)
        if raw.get("created") == connection.created:
            return raw
    return {}


def reserve(connection: Connection) -> None:
    """Make the file of a new cluster. A dead cluster's is replaced. Raises Conflict if a live one has the name."""
    path = path_of(connection.name)
    while True:
        try:
            with private.open_file(path, os.O_EXCL) as file:
                file.write(msgspec.json.encode(connection))
            return
        except FileExistsError:
            with contextlib.suppress(NotFound):
                if read(connection.name).is_alive:
                    raise Conflict(
                        f"A cluster's name is its own. Received: {connection.name!r}, which exists"
                    ) from None
            path.unlink(missing_ok=True)


def mark_lost(connection: Connection, message: str) -> Connection | None:
    """Note that a cluster died, for whoever looks next, until it is dismissed.

    Returns what its file says now: nothing if its user has ended it meanwhile.
    """
    try:
        now = read(connection.name)
    except NotFound:
        return None
    if now.created != connection.created or now.state is ClusterState.STOPPING:
        return None
    if now.state is not ClusterState.LOST:
        now.state, now.message = ClusterState.LOST, message
        now.ca = now.cert = now.key = ""  # nobody will need them
        write(now)
    return now


def forget(name: str) -> None:
    """Remove a cluster's files."""
    for path in (path_of(name), log_of(name)):
        path.unlink(missing_ok=True)


def free_name(kind: str) -> str:
    """A name that no cluster has: ``local-1``, ``local-2``..."""
    taken = set(read_all())
    return next(name for number in range(1, len(taken) + 2) if (name := f"{kind}-{number}") not in taken)
