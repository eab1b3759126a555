"""The "family" of a cluster: all of its processes on this machine, identified by an environment variable.

The cluster process is started with ``JUPYTER_DTF_FAMILY=<token>``, which everything that it starts inherits. The warm
process and its descendants have ``<token>/warm``. This identifies processes even if they have left their parent, their
process group and their session. A process *claims* a directory with a lock, which the kernel releases when the lock's
last holder ends for any reason. A directory that no process claims belongs to a dead cluster, and ``sweep`` removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from . import children, paths, processes

logger = logging.getLogger(__name__)

VARIABLE = "JUPYTER_DTF_FAMILY"
LOCK = ".living"
_WARM = "/warm"
_LOOK_AGAIN_S = 0.02


def environment(token: str, *, warm: bool = False) -> dict[str, str]:
    """Return the environment for a new process in the family ``token``."""
    return children.environment({VARIABLE: token + _WARM if warm else token})


def members(
    token: str, *, warm_only: bool = False, but: Collection[int] = (), variable: str = VARIABLE
) -> Iterator[int]:
    """Yield the ids of a family's processes on this machine, except this one and those in ``but``.

    Args:
        token: The value of the environment variable.
        warm_only: Whether to yield only the warm process and its descendants.
        but: The ids of processes to leave out.
        variable: The environment variable by which the family is identified.
    """
    wanted = {f"{variable}={token}{_WARM}".encode()}
    if not warm_only:
        wanted.add(f"{variable}={token}".encode())
    me, user = os.getpid(), os.getuid()
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (pid := int(name)) != me and pid not in but and _is_one(pid, user, wanted):
                yield pid


def _is_one(pid: int, user: int, wanted: set[bytes]) -> bool:
    return not wanted.isdisjoint(_environment(pid, user))


def _environment(pid: int, user: int) -> list[bytes]:
    """Return a process's environment entries; empty if it is not one of that user's processes on this machine."""
    directory = f"/proc/{pid}"
    try:
        if os.stat(directory).st_uid != user:
            return []
        with open(f"{directory}/environ", "rb") as file:
            words = file.read().split(b"\0")
        # A process in a container of its own counts as being on another machine.
        return words if os.readlink(f"{directory}/ns/pid") == os.readlink("/proc/self/ns/pid") else []
    except OSError:  # it has ended, or access is denied
        return []


def all_members() -> dict[str, list[int]]:
    """Return the process ids of all of this user's families, keyed by token. This process is not included."""
    me, user, mark = os.getpid(), os.getuid(), f"{VARIABLE}=".encode()
    found: dict[str, list[int]] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (pid := int(name)) != me:
                for word in _environment(pid, user):
                    if word.startswith(mark):
                        token = os.fsdecode(word.removeprefix(mark)).removesuffix(_WARM)
                        found.setdefault(token, []).append(pid)
    return found


def end(
    token: str,
    *,
    warm_only: bool = False,
    but: Collection[int] = (),
    wait_s: float = 5.0,
    variable: str = VARIABLE,
) -> list[int]:
    """Kill a family's processes on this machine immediately, even stopped ones.

    Returns the ids of the processes that are still running after ``wait_s`` seconds. The other arguments are those of
    ``members``.
    """
    deadline = time.monotonic() + wait_s
    while found := list(members(token, warm_only=warm_only, but=but, variable=variable)):  # one may have forked
        for pid in found:
            _kill(pid, token, variable)
        if time.monotonic() > deadline:
            return found
        time.sleep(_LOOK_AGAIN_S)
    return []


def _kill(pid: int, token: str, variable: str) -> None:
    with contextlib.suppress(OSError):
        handle = processes.Handle(pid)
        try:
            wanted = {f"{variable}={token}".encode(), f"{variable}={token}{_WARM}".encode()}
            if _is_one(pid, os.getuid(), wanted):  # checked again: with the handle, the id cannot be reused
                handle.kill()
        finally:
            handle.close()


# -- directories ---------------------------------------------------------------------------------------------------


def claim(directory: Path) -> int:
    """Claim ``directory`` for this process, creating it if necessary. Returns a file descriptor.

    The claim lasts until the descriptor, and every copy inherited by a child, is closed.
    """
    path = directory / LOCK
    while True:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            if (fd := _make_locked(path)) >= 0:
                return fd
            continue
        fcntl.flock(fd, fcntl.LOCK_SH)
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        os.close(fd)  # the directory was swept in the meantime


def _make_locked(path: Path) -> int:
    """Create the lock file, locking it before it gets its name. Returns its descriptor, or -1 if it already exists."""
    aside = path.with_name(f"{LOCK}.{os.getpid()}.{time.monotonic_ns()}")
    fd = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(fd, fcntl.LOCK_SH)
    try:
        os.link(aside, path)
    except FileExistsError:
        os.close(fd)
        return -1
    finally:
        aside.unlink()
    return fd


def is_claimed(directory: Path) -> bool:
    """Return whether a live process claims a directory. False if it has no lock file."""
    try:
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def sweep() -> list[str]:
    """Remove the directories of this user's dead clusters, and kill their remaining processes.

    Returns:
        The tokens of those clusters.
    """
    swept = []
    for parent in paths.family_parents():
        for directory in sorted(parent.iterdir()) if parent.is_dir() else []:
            with contextlib.suppress(OSError):
                if sweep_one(directory):
                    swept.append(directory.name)
    return sorted(set(swept))


def sweep_one(directory: Path) -> bool:
    """Remove a cluster's directory, named after its token, and kill its processes, unless the directory is claimed.

    Returns whether the directory was removed.
    """
    try:
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False  # being created, or not a cluster's directory
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        logger.info("Removing a directory left behind by a dead cluster: %s", directory)
        end(directory.name)
        shutil.rmtree(directory, ignore_errors=True)
        return True
    finally:
        os.close(fd)


def remove(directories: Collection[str | Path]) -> None:
    """Remove a family's directories after it has ended."""
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
