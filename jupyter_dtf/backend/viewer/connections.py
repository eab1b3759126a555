"""The connection files that are used to find and reach this user's clusters. Only their owner can read them.

The process that starts a cluster reserves its file (``starting``). From then on, only the cluster process writes it.

Clusters of other versions have files here too. It must be possible to list and stop them whatever else their files
contain: ``name``, ``kind``, ``state``, ``pid``, ``pid_created``, ``where``, ``created``, ``token``, ``directories`` and
``speech`` have the same meaning in every version, and a cluster process shuts down cleanly on SIGTERM. Any other value
that cannot be read gets its default, and an unknown key is kept when the rest of the file changes.

Several machines or containers may share the directory of these files. A process id is looked up only where it is valid
(``Connection.where``). A cluster that runs elsewhere is never considered dead here, and none of its processes or files
is ended or removed: it responds on its link, or is shown as not responding.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from ...errors import Conflict, NotFound, Unavailable
from ...schema import private_files, protocol
from ...schema.api import ClusterState
from ...schema.base import PeerStruct, with_unknown
from ...schema.cluster_request import check_name
from ...schema.disk_space import FULL
from ...schema.protocol import Speech
from ...schema.run import RunDescriptor, cluster_id
from ..machine import paths, whereabouts
from ..machine.processes import stat_of
from ..machine.whereabouts import Whereabouts

logger = logging.getLogger(__name__)

_LOCK = ".names.lock"
"""The name of the lock file that is held while a cluster name is checked and reserved."""


class Connection(PeerStruct):
    """The contents of a connection file."""

    name: str
    kind: str
    state: ClusterState
    pid: int
    """The process id of the cluster process."""
    pid_created: float
    """When that process was created, in seconds since the epoch. Needed because process ids are reused."""
    created: float
    pid_started: int = 0
    """The same time in clock ticks since boot, which setting the clock does not change. 0: unknown."""
    where: Whereabouts = msgspec.field(default_factory=Whereabouts)
    """Where that process runs. Empty in files of versions that did not record this; they are assumed to be local."""
    started_by: int = 0
    """The id of the process that started the cluster process: its parent, which receives its exit status."""
    jobs: dict[str, int] = {}
    message: str = ""
    address: str = ""
    """The Dask scheduler's address: ``tls://host:port``, or ``tcp://host:port`` for an external one without TLS."""
    ca: str = ""
    cert: str = ""
    key: str = ""
    scope: str = ""
    """The suffix of the names of the cluster's operations on that scheduler (``schema.operations``)."""
    token: str = ""
    """The token that identifies the cluster's processes and names its directories (``cluster_processes``)."""
    directories: list[str] = []
    """The cluster's directories on the machine of the cluster process."""
    speech: Speech = msgspec.field(default_factory=protocol.ours)
    """The protocol versions that the cluster process supports, and its version of jupyter_dtf."""

    @property
    def is_alive(self) -> bool:
        """Whether the cluster process is running. A process on another machine is assumed to be running."""
        if self.is_elsewhere:
            return True
        if self.has_lost_its_machine:
            return False
        if self.pid_started:
            stat = stat_of(self.pid)
            if stat is None:
                return _may_exist(self.pid)
            return stat.started == self.pid_started and not stat.has_ended
        try:
            process = psutil.Process(self.pid)
            return abs(process.create_time() - self.pid_created) < 2 and process.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, ValueError, OverflowError):  # not a valid process id
            return False

    @property
    def is_elsewhere(self) -> bool:
        """Whether the cluster process is on another machine or in another container, and not visible from here."""
        here = whereabouts.here()
        return self.where.are_known and not here.sees(self.where) and not here.is_later_boot_of(self.where)

    @property
    def has_lost_its_machine(self) -> bool:
        """Whether the cluster process ran on this machine before the machine was restarted."""
        return whereabouts.here().is_later_boot_of(self.where)

    @property
    def refusal(self) -> str:
        """Why this version cannot use the cluster, and what to do. Empty if it can, or if the cluster is gone."""
        gone = self.state in (ClusterState.FAILED, ClusterState.LOST)
        return "" if gone else protocol.cluster_refusal(self.name, self.speech)

    def is_cluster_of(self, run: RunDescriptor) -> bool:
        """Return whether a run was submitted to this cluster, not to an earlier or later one with the same name."""
        if run.cluster != self.name:
            return False
        if run.cluster_id and self.token:
            return run.cluster_id == cluster_id(self.token)
        return run.created >= self.created  # recorded by a version without cluster ids: compare times instead

    def is_of(self, pid: int) -> None:
        """Record ``pid``, a process on this machine, as the cluster process. Raises psutil.NoSuchProcess."""
        stat = stat_of(pid)
        self.pid, self.pid_created = pid, psutil.Process(pid).create_time()
        self.pid_started = stat.started if stat is not None else 0
        self.where = whereabouts.here()


def _may_exist(pid: int) -> bool:
    """Return whether a process may exist although its state cannot be read because too many files are open."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return pid > 0


def path_of(name: str) -> Path:
    """Return the path of a cluster's connection file. Raises InvalidInput if the name is not valid."""
    return paths.connections_dir() / f"{check_name(name)}.json"


def log_of(name: str) -> Path:
    """Return the path of the cluster process's output."""
    return path_of(name).with_suffix(".log")


def read(name: str) -> Connection:
    """Read a cluster's connection file.

    Raises:
        NotFound: If there is no file, and so no such cluster.
        Unavailable: If the file cannot be read, temporarily or permanently. The cluster may exist nevertheless.
    """
    path = path_of(name)
    try:
        return _as_connection(_raw(path))
    except FileNotFoundError:
        raise NotFound(f"There is no cluster named {name!r}") from None
    except _UNREADABLE as error:
        raise Unavailable(f"The connection file {path} cannot be read: {error}") from None


_UNREADABLE = (OSError, msgspec.MsgspecError, ValueError, RecursionError)
"""The exceptions that reading a file may raise, whatever it contains."""


def _raw(path: Path) -> dict[str, Any]:
    """Decode the file. Raises OSError, ValueError, RecursionError or msgspec.MsgspecError if it cannot be read."""
    return msgspec.json.decode(private_files.read_file(path), type=dict[str, Any])


def _as_connection(raw: dict[str, Any]) -> Connection:
    """Convert the contents of a file of any version. Raises msgspec.ValidationError for any other kind of file."""
    raw = {"speech": {}, **raw}  # files from before protocols were numbered lack it
    if not isinstance(raw["speech"], dict):
        raw["speech"] = {}
    try:
        return msgspec.convert(raw, Connection)
    except msgspec.ValidationError:
        if protocol.ours().understands(protocol.theirs(raw["speech"])):
            raise  # the file has this version's format, so it is damaged
    return msgspec.convert({"state": ClusterState.RUNNING, **_readable(raw)}, Connection)


def _readable(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of another version's file that are valid in this version too."""
    found = {}
    for field in msgspec.structs.fields(Connection):
        with contextlib.suppress(KeyError, msgspec.ValidationError):
            found[field.name] = msgspec.convert(raw[field.name], field.type)
    return found


class Listing(NamedTuple):
    """The connection files, whether or not their clusters are alive."""

    clusters: dict[str, Connection]
    """The contents of the readable files, keyed by cluster name."""
    unreadable: dict[str, str]
    """The reasons why the other files cannot be read, keyed by cluster name."""


def listing() -> Listing:
    """Read all connection files. Raises Unavailable if they cannot be listed."""
    found = Listing({}, {})
    directory = paths.connections_dir()
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise Unavailable(f"The directory {directory} of connection files cannot be read: {error}") from None
    for name in [name.removesuffix(".json") for name in names if name.endswith(".json")]:
        try:
            found.clusters[name] = read(name)
        except Unavailable as error:
            found.unreadable[name] = str(error)
        except (NotFound, ValueError):  # removed in the meantime, or not a connection file
            pass
    return found


def read_all() -> dict[str, Connection]:
    """Return the contents of all readable connection files, keyed by name, whether or not their clusters are alive."""
    try:
        return listing().clusters
    except Unavailable:  # for example, the directory cannot be created: no cluster has been started
        return {}


def write(connection: Connection) -> None:
    """Replace the cluster's file atomically, or overwrite it in place if the disk is full. Raises OSError."""
    path = path_of(connection.name)
    aside = path.with_suffix(f".{secrets.token_hex(6)}.new")
    data = msgspec.json.encode(with_unknown(_of_same_cluster(path, connection), connection))
    try:
        with private_files.open_file(aside) as file:
            file.write(data)
        aside.replace(path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        if error.errno not in FULL or not path.exists() or (size := path.stat().st_size) < len(data):
            raise
        _overwrite(path, data.ljust(size))


def _overwrite(path: Path, data: bytes) -> None:
    """Overwrite a file in place with a single write, so that no reader sees only a part of it. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        written = os.pwrite(descriptor, data, 0)
    finally:
        os.close(descriptor)
    if written < len(data):
        raise OSError(errno.ENOSPC, f"Only {written} of {len(data)} bytes could be written", os.fspath(path))


def _of_same_cluster(path: Path, connection: Connection) -> dict[str, Any]:
    """Return the current contents of the file if it belongs to the same cluster, else an empty dict."""
    with contextlib.suppress(*_UNREADABLE):
        raw = _raw(path)
        if raw.get("created") == connection.created:
            return raw
    return {}


def reserve(connection: Connection) -> None:
    """Create the file of a new cluster, replacing the file of a dead one.

    Of several simultaneous callers, one succeeds.

    Raises:
        Conflict: If a live cluster has the name.
        OSError: If the file cannot be written.
    """
    with _reserving():
        _check_unused(connection.name)
        write(connection)


@contextlib.contextmanager
def _reserving() -> Iterator[None]:
    """Let only one thread of one process check and reserve names at a time."""
    descriptor = os.open(paths.connections_dir() / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:  # a file system without locks: two simultaneous starts may collide
            logger.warning("Names of clusters cannot be locked in %s: %s", paths.connections_dir(), error)
        yield
    finally:
        # Unlock explicitly: a process forked since then may have a copy of the descriptor.
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _check_unused(name: str) -> None:
    """Raise Conflict if a live cluster may have the name."""
    try:
        if read(name).is_alive:
            raise Conflict(f"`name` must be unused, but a cluster named {name!r} exists")
    except NotFound:
        pass
    except Unavailable as error:
        raise Conflict(
            f"`name` must be unused, but a cluster named {name!r} may exist. {error}. Remove the file if there is no "
            "such cluster"
        ) from None


def mark_lost(connection: Connection, message: str) -> Connection | None:
    """Mark a cluster as lost in its file. It stays marked until the user dismisses it.

    Returns:
        The new contents of the file, or None if the user has stopped the cluster in the meantime.

    Raises:
        Unavailable: If the file cannot be read.
        OSError: If the file cannot be written.
    """
    try:
        now = read(connection.name)
    except NotFound:
        return None
    if now.created != connection.created or now.state is ClusterState.STOPPING:
        return None
    if now.state is not ClusterState.LOST:
        now.state, now.message = ClusterState.LOST, message
        now.ca = now.cert = now.key = ""  # no longer needed
        write(now)
    return now


def forget(name: str) -> None:
    """Remove a cluster's connection file and log."""
    for path in (path_of(name), log_of(name)):
        path.unlink(missing_ok=True)


def free_name(kind: str) -> str:
    """Return an unused cluster name: ``local-1``, ``local-2``... Raises Unavailable if names cannot be listed."""
    found = listing()
    taken = {*found.clusters, *found.unreadable}
    return next(name for number in range(1, len(taken) + 2) if (name := f"{kind}-{number}") not in taken)
