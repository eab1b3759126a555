"""Detects kills for lack of memory, from the kernel's counters and, if readable, the kernel's log."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

_NO_LIMIT = 1 << 60
"""Version 1 cgroups without a limit report a little less than 2^63."""
_KMSG_BYTES = 8_192
_KMSG_MOST = 20_000
_KILLED = re.compile(r"(?:Killed process|oom-kill:.*\bpid=) ?(\d+)")


class OomWatch:
    """Tracks the kernel's out-of-memory kills in this process's cgroup (version 2 or 1), or else on the whole machine.

    ``root`` is the root of the machine's file system.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._group = _group(root)
        self._seen = self._count()
        self._killed: set[int] = set()
        self._log = -1
        with contextlib.suppress(OSError):
            self._log = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._log, 0, os.SEEK_END)

    def explain(self, pid: int) -> str:
        """Return a phrase that says why process ``pid`` was killed, or an empty string if it was not for lack of
        memory.

        The phrase is the end of a sentence. Each kill that the kernel has counted explains the end of only one process.
        """
        count = self._count()
        self._killed |= self._named()
        if pid not in self._killed and count <= self._seen:
            return ""
        self._killed.discard(pid)
        self._seen = min(count, self._seen + 1)
        return f"by the kernel, because {self._where()} ran out of memory"

    def _where(self) -> str:
        limit = self._limit()
        return f"its control group (limit {limit / 2**30:.3g} GiB)" if limit else "the machine"

    def _count(self) -> int:
        if self._group is not None:
            for name in ("memory.events", "memory.oom_control"):
                if (count := _field(self._group / name, "oom_kill")) is not None:
                    return count
        return _field(self._root / "proc/vmstat", "oom_kill") or 0

    def _limit(self) -> int:
        """Return the smallest memory limit of the group and its ancestors, or 0 if there is none."""
        least = 0
        group = self._group
        while group is not None and group.is_dir() and group != self._root / "sys/fs":
            for name in ("memory.max", "memory.limit_in_bytes"):
                with contextlib.suppress(OSError, ValueError):
                    limit = int((group / name).read_text())
                    if limit < _NO_LIMIT:
                        least = min(least or limit, limit)
            group = group.parent
        return least

    def close(self) -> None:
        if self._log >= 0:
            os.close(self._log)
            self._log = -1

    def _named(self) -> set[int]:
        """Return the processes killed since the last call according to the kernel's log, if that is readable."""
        found: set[int] = set()
        for _ in range(_KMSG_MOST if self._log >= 0 else 0):
            try:
                record = os.read(self._log, _KMSG_BYTES)
            except BrokenPipeError:  # this record was overwritten in the meantime
                continue
            except OSError:  # no more records
                break
            if not record:
                break
            found.update(int(pid) for pid in _KILLED.findall(record.decode(errors="replace")))
        return found


def _group(root: Path) -> Path | None:
    """Return the directory of this process's memory cgroup."""
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _number, controllers, path = line.split(":", 2)
            mounts = ["sys/fs/cgroup/memory"] if "memory" in controllers.split(",") else []
            for mount in mounts if controllers else ["sys/fs/cgroup", "sys/fs/cgroup/unified"]:
                for directory in (root / mount / path.lstrip("/"), root / mount):  # the second is for containers
                    if any((directory / name).exists() for name in ("memory.events", "memory.oom_control")):
                        return directory
    return None


def _field(path: Path, name: str) -> int | None:
    with contextlib.suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            key, _, value = line.partition(" ")
            if key == name:
                return int(value)
    return None
