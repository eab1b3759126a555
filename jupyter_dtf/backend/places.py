"""Where jupyter_dtf keeps its files. Paths only; nothing is made here but private directories."""

from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

from ..errors import Unavailable


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


def connections_dir() -> Path:
    """Connection files, private to the user; made if it is missing."""
    from jupyter_core.paths import jupyter_runtime_dir

    return private_dir(Path(jupyter_runtime_dir()) / "jupyter_dtf")


def machine_dir(token: str) -> Path:
    """A cluster's files on this machine: the warm process's socket, task directories. Short enough for a socket."""
    return private_dir(private_dir(Path(tempfile.gettempdir()) / f"jupyter_dtf-{os.getuid()}") / token)


def shared_memory_dir(token: str) -> Path:
    """A cluster's directory in memory on this machine, where the system has one (Linux)."""
    memory = Path("/dev/shm")
    base = memory if memory.is_dir() else Path(tempfile.gettempdir())
    return private_dir(private_dir(base / f"jupyter_dtf-{os.getuid()}-shared") / token)


def machine_name() -> str:
    """The name under which this machine's hosts recognise that they share memory."""
    return socket.gethostname()


def private_dir(path: Path) -> Path:
    """Make ``path`` for this user alone. Raises Unavailable if it belongs to somebody else."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = path.stat()
    if found.st_uid != os.getuid():
        raise Unavailable(f"A directory of jupyter_dtf belongs to its user. Received: {path} of uid {found.st_uid}")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o700)
    return path
