"""Directories and orphaned processes that crashed clusters have left behind on this machine.

Clusters and servers also sweep the directories when they start (``cluster_processes.sweep``); this module can list them
before they are removed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import psutil

from ...schema.base import PeerStruct
from . import cluster_processes, paths
from .processes import stat_of

_TOKEN = re.compile("[0-9a-f]{12}")
_HEAD = "cluster_process"
_YOUNG_S = 30.0
"""The age in seconds below which a directory or process may belong to a cluster that has not claimed it yet."""
_NAMED = 8
"""The maximum number of processes to list."""


class LeftOver(PeerStruct):
    """The leftovers of one dead cluster on this machine."""

    token: str
    directories: list[str] = []
    processes: list[int] = []

    def __str__(self) -> str:
        count = len(self.processes)
        named = ", ".join(map(str, self.processes[:_NAMED])) + (", ..." if count > _NAMED else "")
        running = f"process{'es' * (count > 1)} {named}" if count else ""
        return f"{', '.join(filter(None, [*self.directories, running]))}, of a dead cluster"


def find(alive: Collection[str] = ()) -> list[LeftOver]:
    """Return the leftovers of dead clusters on this machine. Clusters with tokens in ``alive`` are known to be alive.

    A cluster also counts as alive while a process claims one of its directories, or its cluster process is running.
    """
    found: dict[str, LeftOver] = {}
    living = set(alive)
    for directory in _directories():
        if cluster_processes.is_claimed(directory) or _is_young(directory):
            living.add(directory.name)
        else:
            found.setdefault(directory.name, LeftOver(token=directory.name)).directories.append(str(directory))
    for token, pids in cluster_processes.all_members().items():
        if any(_is_head(pid) or _age_s(pid) < _YOUNG_S for pid in pids):
            living.add(token)
        else:
            found.setdefault(token, LeftOver(token=token)).processes += sorted(pids)
    return [left for token, left in sorted(found.items()) if token not in living]


def remove(left: Iterable[LeftOver]) -> list[LeftOver]:
    """Remove leftovers. Returns those that could not be removed."""
    stays = []
    for each in left:
        there = cluster_processes.end(each.token) if each.processes else []
        for directory in each.directories:
            if not cluster_processes.sweep_one(Path(directory)):  # it has never been claimed
                shutil.rmtree(directory, ignore_errors=True)
        directories = [directory for directory in each.directories if Path(directory).exists()]
        if there or directories:
            stays.append(LeftOver(token=each.token, directories=directories, processes=there))
    return stays


def _directories() -> list[Path]:
    found = []
    for parent in paths.family_parents():
        with contextlib.suppress(OSError):
            found += sorted(path for path in parent.iterdir() if _TOKEN.fullmatch(path.name) and not path.is_symlink())
    return found


def _is_young(directory: Path) -> bool:
    try:
        return time.time() - directory.stat().st_mtime < _YOUNG_S and not (directory / cluster_processes.LOCK).exists()
    except OSError:
        return True


def _is_head(pid: int) -> bool:
    try:
        return any(word.endswith(f".{_HEAD}") for word in psutil.Process(pid).cmdline())
    except psutil.Error:
        return False


def _age_s(pid: int) -> float:
    """Return a process's age in seconds, measured with the boot clock, because the wall clock may have been changed."""
    stat = stat_of(pid)
    if stat is None:
        return 0.0
    return time.clock_gettime(time.CLOCK_BOOTTIME) - stat.started / os.sysconf("SC_CLK_TCK")
