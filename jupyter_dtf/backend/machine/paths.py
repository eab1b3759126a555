"""Where jupyter_dtf keeps its files, and that nobody else gets at them. Nothing is made here but directories."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ...errors import Unavailable
from ...schema import private
from ...schema.room import FULL, refusal

_OURS = ("jobs", "runs", "templates")
"""How the names begin of what is in ``data_dir()``."""
_SMALL_FILE_BYTES = 16 << 10
_SOCKET_BYTES = 107
"""The longest path that a Unix socket can have."""
_IN_SOCKETS = f"/{'0' * 12}/warm.sock"
MACHINE = "JUPYTER_DTF_MACHINE"
"""What this machine is called, where its own name is another one's of the cluster as well."""


def data_dir() -> Path:
    """What outlives clusters: the store and the runs' directories. ``JUPYTER_DTF_DATA_DIR`` moves it."""
    if moved := os.environ.get("JUPYTER_DTF_DATA_DIR"):
        return Path(moved)
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "jupyter_dtf"


def store_path() -> Path:
    """The SQLite file of past runs."""
    return data_dir() / "runs.sqlite"


def runs_dir() -> Path:
    """The parent of every ``ctx.run_dir``."""
    return data_dir() / "runs"


def jobs_dir() -> Path:
    """The parent of what a cluster shares with its jobs of a batch system."""
    return data_dir() / "jobs"


def connections_dir() -> Path:
    """Connection files, private to the user; made if it is missing."""
    from jupyter_core.paths import jupyter_runtime_dir

    return _own_dir(Path(jupyter_runtime_dir()) / "jupyter_dtf")


def _machine_dirs() -> Path:
    return Path(tempfile.gettempdir()) / f"jupyter_dtf-{os.getuid()}"


def _shared_memory_dirs() -> Path:
    memory = Path("/dev/shm")
    base = memory if memory.is_dir() else Path(tempfile.gettempdir())
    return base / f"jupyter_dtf-{os.getuid()}-shared"


def family_parents() -> list[Path]:
    """Where the directories of this user's clusters on this machine are, by their tokens."""
    return [_machine_dirs(), _shared_memory_dirs()]


def machine_dir(token: str) -> Path:
    """A cluster's files on this machine: the warm process's socket, task directories. Raises Unavailable."""
    check_short()
    return _own_dir(_own_dir(_machine_dirs()) / token)


def shared_memory_dir(token: str) -> Path:
    """A cluster's directory in memory on this machine, where the system has one (Linux)."""
    return _own_dir(_own_dir(_shared_memory_dirs()) / token)


def machine_name() -> str:
    """The name under which this machine's hosts recognise that they share memory."""
    return os.environ.get(MACHINE) or socket.gethostname()


def close_to_others() -> None:
    """Take from others what an older version, or a umask, has let them do with our files. It costs a look.

    A directory that ``JUPYTER_DTF_DATA_DIR`` names and that holds other things too is left as it is.
    """
    data = data_dir()
    ours = [path for path in _inside(data) if path.name.startswith(_OURS)]
    if "JUPYTER_DTF_DATA_DIR" not in os.environ or len(ours) == len(list(_inside(data))):
        private.close(data)
    for path in (*ours, *_inside(connections_dir())):
        private.close(path)
    for path in _inside(runs_dir()):
        if private.close(path):
            private.close_tree(path)
    for root in family_parents():
        private.close(root)
        for path in _inside(root):
            private.close(path)


def _inside(directory: Path) -> Iterator[Path]:
    try:
        with os.scandir(directory) as entries:
            yield from [Path(entry.path) for entry in entries]
    except OSError:  # there is none, or it is not for us
        return


def check_short() -> None:
    """Raise Unavailable if the path of the temporary directory is too long for the sockets in it."""
    too_long = len(os.fsencode(f"{_machine_dirs()}{_IN_SOCKETS}")) - _SOCKET_BYTES
    if too_long > 0:
        directory = tempfile.gettempdir()
        most = len(os.fsencode(directory)) - too_long
        raise Unavailable(f"TMPDIR must be at most {most} bytes long, for Unix sockets are in it, got {directory!r}")


def check_writable() -> None:
    """Refuse to start what could not be reached, or not be saved ever. Raises Unavailable, which says how to mend it.

    A data directory on a disk that is full may have room again: clusters start, and say that runs are not saved.
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
    """Make ``path`` for this user alone. Raises Unavailable if it cannot be made, or belongs to somebody else."""
    try:
        return private.own_dir(path)
    except OSError as error:
        raise Unavailable(refusal(path, "A directory of jupyter_dtf", error, advice=_advice(path))) from error


def _advice(path: Path) -> str:
    """What moves a directory elsewhere."""
    from jupyter_core.paths import jupyter_runtime_dir

    if path.is_relative_to(jupyter_runtime_dir()):
        return "set JUPYTER_RUNTIME_DIR to a directory that is"
    if path.is_relative_to(data_dir()):
        return "set JUPYTER_DTF_DATA_DIR to a directory that is"
    return "set TMPDIR to a directory that is"
