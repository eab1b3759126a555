"""Connection files: how a cluster of this user is found and reached. Readable by their owner alone.

A file is reserved by whoever starts a cluster (state ``starting``) and from then on written by the cluster process
alone.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

import msgspec
import psutil

from ..errors import Conflict, NotFound
from ..schema.api import ClusterState, check_name
from . import places


class Connection(msgspec.Struct, kw_only=True):
    """What a connection file says."""

    name: str
    kind: str
    state: ClusterState
    pid: int
    """The cluster process."""
    pid_created: float
    """When that process was created, in seconds since the epoch: a process id is used again."""
    created: float
    jobs: dict[str, int]
    message: str = ""
    address: str = ""
    """The Dask scheduler, ``tls://host:port``."""
    ca: str = ""
    cert: str = ""
    key: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether the cluster process is there."""
        try:
            process = psutil.Process(self.pid)
            return abs(process.create_time() - self.pid_created) < 2 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


def path_of(name: str) -> Path:
    """The connection file of a cluster. Raises InvalidInput if there can be no such name."""
    return places.connections_dir() / f"{check_name(name)}.json"


def log_of(name: str) -> Path:
    """The output of the cluster process."""
    return path_of(name).with_suffix(".log")


def read(name: str) -> Connection:
    """Raises NotFound."""
    with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
        return msgspec.json.decode(path_of(name).read_bytes(), type=Connection)
    raise NotFound(f"There is no cluster of that name. Received: {name!r}")


def read_all() -> dict[str, Connection]:
    """Every connection file that can be read, alive or not, by name."""
    found = {}
    for path in sorted(places.connections_dir().glob("*.json")):
        with contextlib.suppress(NotFound, ValueError):
            found[path.stem] = read(path.stem)
    return found


def write(connection: Connection) -> None:
    """Replace the cluster's file, whole or not at all."""
    path = path_of(connection.name)
    aside = path.with_suffix(f".{os.getpid()}.new")
    with open_private(aside) as file:
        file.write(msgspec.json.encode(connection))
    aside.replace(path)


def open_private(path: Path, flags: int = os.O_TRUNC) -> BinaryIO:
    """A file to write that its owner alone can read."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600), "wb")


def reserve(connection: Connection) -> None:
    """Make the file of a new cluster. A dead cluster's is replaced. Raises Conflict if a live one has the name."""
    path = path_of(connection.name)
    while True:
        try:
            with open_private(path, os.O_EXCL) as file:
                file.write(msgspec.json.encode(connection))
            return
        except FileExistsError:
            with contextlib.suppress(NotFound):
                if read(connection.name).is_alive:
                    raise Conflict(
                        f"A cluster's name is its own. Received: {connection.name!r}, which exists"
                    ) from None
            path.unlink(missing_ok=True)


def forget(name: str) -> None:
    """Remove a cluster's files."""
    for path in (path_of(name), log_of(name)):
        path.unlink(missing_ok=True)


def free_name(kind: str) -> str:
    """A name that no cluster has: ``local-1``, ``local-2``..."""
    taken = set(read_all())
    return next(name for number in range(1, len(taken) + 2) if (name := f"{kind}-{number}") not in taken)
