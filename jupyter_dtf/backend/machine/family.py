"""All processes of one cluster on this machine, whoever their parents are: known by a word in their environment.

The cluster process is started with ``JUPYTER_DTF_FAMILY=<token>``, and everything that it starts inherits it; the warm
process and what descends from it have ``<token>/warm``. So a process is found that has left its parent, its group and
its session. Directories are *claimed* by a lock that the kernel lets go of when the last of its holders is gone, in
whatever way: what nobody claims belongs to nobody living, and ``sweep`` removes it.
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
    """The environment of a process of ours that is of the family ``token``."""
    return children.environment({VARIABLE: token + _WARM if warm else token})


def members(token: str, *, warm_only: bool = False, but: Collection[int] = ()) -> Iterator[int]:
    """The processes of a family here, but this one; ``warm_only``: only what descends from its warm processes."""
    wanted = {f"{VARIABLE}={token}{_WARM}".encode()}
    if not warm_only:
        wanted.add(f"{VARIABLE}={token}".encode())
    me, user = os.getpid(), os.getuid()
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (pid := int(name)) != me and pid not in but and _is_one(pid, user, wanted):
                yield pid


def _is_one(pid: int, user: int, wanted: set[bytes]) -> bool:
    return not wanted.isdisjoint(_environment(pid, user))


def _environment(pid: int, user: int) -> list[bytes]:
    """The environment of a process of that user here; empty for any other."""
    directory = f"/proc/{pid}"
    try:
        if os.stat(directory).st_uid != user:
            return []
        with open(f"{directory}/environ", "rb") as file:
            words = file.read().split(b"\0")
        # In a container of its own it is on another machine, as far as anybody here is concerned.
        return words if os.readlink(f"{directory}/ns/pid") == os.readlink("/proc/self/ns/pid") else []
    except OSError:  # it has ended, or may not be looked at
        return []


def all_members() -> dict[str, list[int]]:
    """The processes of this user's families here, by their tokens, but this one."""
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


def end(token: str, *, warm_only: bool = False, but: Collection[int] = (), wait_s: float = 5.0) -> list[int]:
    """End a family here at once, stopped processes too. Returns those that are still there after ``wait_s``."""
    deadline = time.monotonic() + wait_s
    while found := list(members(token, warm_only=warm_only, but=but)):  # a process may have forked meanwhile
        for pid in found:
            _kill(pid, token)
        if time.monotonic() > deadline:
            return found
        time.sleep(_LOOK_AGAIN_S)
    return []


def _kill(pid: int, token: str) -> None:
    with contextlib.suppress(OSError):
        handle = processes.Handle(pid)
        try:
            wanted = {f"{VARIABLE}={token}".encode(), f"{VARIABLE}={token}{_WARM}".encode()}
            if _is_one(pid, os.getuid(), wanted):  # looked at again: now the number cannot become another's
                handle.kill()
        finally:
            handle.close()


# -- directories ---------------------------------------------------------------------------------------------------


def claim(directory: Path) -> int:
    """Say that ``directory`` belongs to a living process. Returns a descriptor; the claim lasts until it is closed.

    A descriptor that is inherited is the same claim.
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
        os.close(fd)  # it was swept meanwhile


def _make_locked(path: Path) -> int:
    """Make the lock's file, which is never seen by its name without being held. Returns -1 if somebody else did."""
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
    """Whether a living process claims a directory. Nobody does what has no lock."""
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
    """Remove the directories of clusters of this user of which nobody lives, and end what is left of these.

    Returns the clusters' tokens.
    """
    swept = []
    for parent in paths.family_parents():
        for directory in sorted(parent.iterdir()) if parent.is_dir() else []:
            with contextlib.suppress(OSError):
                if sweep_one(directory):
                    swept.append(directory.name)
    return sorted(set(swept))


def sweep_one(directory: Path) -> bool:
    """Remove a directory that has a cluster's token for its name, if nobody who claims it lives."""
    try:
        fd = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False  # being made, or not one of these
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        logger.info("Removing what a cluster that is gone has left: %s", directory)
        end(directory.name)
        shutil.rmtree(directory, ignore_errors=True)
        return True
    finally:
        os.close(fd)


def remove(directories: Collection[str | Path]) -> None:
    """Remove a family's directories, once it has ended."""
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)
