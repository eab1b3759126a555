"""The locations of jupyter_dtf's files, and their protection from other users. Creates only directories."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ...errors import Unavailable
from ...schema import private_files
from ...schema.disk_space import FULL, refusal

_OURS = ("jobs", "runs", "templates")
"""Prefixes of the names of our files in ``data_dir()``."""
_SMALL_FILE_BYTES = 16 << 10
_SOCKET_BYTES = 107
"""The maximum length of a Unix socket's path."""
_IN_SOCKETS = f"/{'0' * 12}/warm.sock"
MACHINE = "JUPYTER_DTF_MACHINE"
"""The environment variable that names this machine if its host name is not unique in the cluster."""


def data_dir() -> Path:
    """Return the directory of data that outlives clusters. ``JUPYTER_DTF_DATA_DIR`` overrides it."""
    if moved := os.environ.get("JUPYTER_DTF_DATA_DIR"):
        return Path(moved)
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "jupyter_dtf"


def store_path() -> Path:
    """Return the path of the SQLite file that stores past runs."""
    return data_dir() / "runs.sqlite"


def runs_dir() -> Path:
    """Return the parent of every ``ctx.run_dir``."""
    return data_dir() / "runs"


def jobs_dir() -> Path:
    """Return the parent of the directories that clusters share with their batch jobs."""
    return data_dir() / "jobs"


def connections_dir() -> Path:
    """Return the directory of connection files, private to the user, creating it if necessary. Raises Unavailable if
    that fails.
    """
    from jupyter_core.paths import jupyter_runtime_dir

    return _own_dir(Path(jupyter_runtime_dir()) / "jupyter_dtf")


def _machine_dirs() -> Path:
    return Path(tempfile.gettempdir()) / f"jupyter_dtf-{os.getuid()}"


def _shared_memory_dirs() -> Path:
    memory = Path("/dev/shm")
    base = memory if memory.is_dir() else Path(tempfile.gettempdir())
    return base / f"jupyter_dtf-{os.getuid()}-shared"


def family_parents() -> list[Path]:
    """Return the directories on this machine that contain one directory for each of this user's clusters, named after
    the cluster's token.
    """
    return [_machine_dirs(), _shared_memory_dirs()]


def machine_dir(token: str) -> Path:
    """Return a cluster's directory on this machine, for the warm process's socket and the task directories.

    Raises Unavailable if it cannot be created, or its path is too long for a socket.
    """
    check_short()
    return _own_dir(_own_dir(_machine_dirs()) / token)


def shared_memory_dir(token: str) -> Path:
    """Return a cluster's directory on this machine, in memory if the system supports that (Linux)."""
    return _own_dir(_own_dir(_shared_memory_dirs()) / token)


def machine_name() -> str:
    """Return the name by which hosts recognize that they are on the same machine and share memory."""
    return os.environ.get(MACHINE) or socket.gethostname()


def close_to_others() -> None:
    """Remove access to our files that an older version or a umask has granted to other users.

    This is cheap if there is no such access.

    A directory set by ``JUPYTER_DTF_DATA_DIR`` that contains other files too is left unchanged.
    """
    data = data_dir()
    ours = [path for path in _inside(data) if path.name.startswith(_OURS)]
    if "JUPYTER_DTF_DATA_DIR" not in os.environ or len(ours) == len(list(_inside(data))):
        private_files.close(data)
    for path in (*ours, *_inside(connections_dir())):
        private_files.close(path)
    for path in _inside(runs_dir()):
        if private_files.close(path):
            private_files.close_tree(path)
    for root in family_parents():
        private_files.close(root)
        for path in _inside(root):
            private_files.close(path)


def _inside(directory: Path) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            yield from [Path(entry.path) for entry in entries]
    except OSError:  # it does not exist, or is not readable
        return


def check_short() -> None:
    """Raise Unavailable if the path of the temporary directory is too long for the sockets in it."""
    too_long = len(os.fsencode(f"{_machine_dirs()}{_IN_SOCKETS}")) - _SOCKET_BYTES
    if too_long > 0:
        directory = tempfile.gettempdir()
        most = len(os.fsencode(directory)) - too_long
        raise Unavailable(
            f"TMPDIR must be at most {most} bytes long, because it contains Unix sockets, got {directory!r}"
        )


def check_writable() -> None:
    """Raise Unavailable, with advice, if connection files or runs can never be written.

    A full disk is tolerated for the data directory, since space may become available later: clusters start, and report
    that runs are not being saved.
    """
    check_short()
    for directory, what in ((connections_dir(), "The connection file"), (data_dir(), "Runs")):
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
                file.write(bytes(_SMALL_FILE_BYTES))
        except OSError as error:
            if what != "Runs" or error.errno not in FULL:
                raise Unavailable(refusal(directory, what, error, advice=_advice(directory))) from error


def _own_dir(path: Path) -> Path:
    """Create ``path``, private to this user. Raises Unavailable if that fails, or it belongs to another user."""
    try:
        return private_files.own_dir(path)
    except OSError as error:
        raise Unavailable(refusal(path, "A directory of jupyter_dtf", error, advice=_advice(path))) from error


def _advice(path: Path) -> str:
    """Return advice on how to move a directory elsewhere."""
    from jupyter_core.paths import jupyter_runtime_dir

    if path.is_relative_to(jupyter_runtime_dir()):
        return "set JUPYTER_RUNTIME_DIR to another directory"
    if path.is_relative_to(data_dir()):
        return "set JUPYTER_DTF_DATA_DIR to another directory"
    return "set TMPDIR to another directory"
