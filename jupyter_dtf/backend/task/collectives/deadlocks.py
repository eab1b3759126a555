"""Deadlock detection for tasks that wait for each other in different collectives.

After a moment of waiting, a task repeatedly writes an entry to a board, with the collective in which it waits and the
tasks for which it waits, and reads the entries of the other tasks. A deadlock appears as a cycle, which cannot occur
while all tasks make the same calls in the same order.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from ....schema import private_files
from .. import heartbeat
from .calls import differ

LOOK_S = 0.25
"""The interval, in seconds, at which a waiting task checks the board."""

_READ_MS = 50  # reading a missing key takes this long
HEARD_S = 2.0
"""The maximum time in seconds to wait until other tasks have read their messages."""
VERDICT, GONE = "verdict", "gone"
"""Prefixes of keys on the board. The values say why a wait will never end (the verdict), and why a task has left."""


class Wait(NamedTuple):
    """A task's wait for ``missing`` in the ``number``-th collective of a group. Ranks are those in the run."""

    group: str
    number: int
    text: str
    ranks: tuple[int, ...]
    missing: tuple[int, ...]
    beat: int = 0
    """The number of the task's checks. While this increases, the task is still waiting."""


Waits = dict[int, list[Wait]]


class Board(ABC):
    """Strings indexed by key, shared by all tasks. A write becomes visible to the other tasks within a short time."""

    lasts = True
    """Whether the entries of a task remain after it has ended."""

    lost = False
    """Whether the board was lost, together with the task that hosted it."""

    @abstractmethod
    def write(self, key: str, text: str) -> None:
        """Write a string, replacing the previous one."""

    @abstractmethod
    def read(self, key: str) -> str:
        """Return the string stored under the key, or an empty string if there is none."""

    def linger(self) -> None:  # noqa: B027  # most boards are not hosted by a task
        """If this task hosts the board, wait before it ends until the other tasks have read their messages."""


class Files(Board):
    """A board in a directory that all tasks can access."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        private_files.make_dir(directory)

    def write(self, key: str, text: str) -> None:
        aside = self._directory / f".{key}-{os.getpid()}-{threading.get_ident()}"
        with private_files.open_file(aside) as file:
            file.write(text.encode())
        aside.replace(self._directory / key)

    def read(self, key: str) -> str:
        try:
            return (self._directory / key).read_text()
        except OSError:
            return ""


class Keys(Board):
    """A board in TensorFlow's coordination service, which exists if TensorFlow's collectives are used."""

    lasts = False  # hosted by the first task

    def __init__(self) -> None:
        # TensorFlow 2.21: the runtime context has no public API for this.
        from tensorflow.python.eager import context

        self._context = context.context()

    def write(self, key: str, text: str) -> None:
        with contextlib.suppress(tf.errors.OpError):  # the key did not exist
            self._context.delete_config_key_value(f"dtf/{key}")
        with contextlib.suppress(tf.errors.OpError):  # the service ends with the first task
            self._context.set_config_key_value(f"dtf/{key}", text)

    def read(self, key: str) -> str:
        try:
            return str(self._context.get_config_key_value(f"dtf/{key}", _READ_MS))
        except (tf.errors.DeadlineExceededError, tf.errors.NotFoundError):
            return ""
        except tf.errors.OpError:
            self.lost = True
            return ""


class Watch(Protocol):
    """The interface for code that waits: ``Lookout``, or an adapter for one part of a reducer with several parts."""

    def look(self, wait: Wait) -> str:
        """Check a wait. Return the reason why it will never end, or an empty string if it may end. Call this regularly
        during the wait.
        """

    def over(self, group: str) -> None:
        """Record that the wait in that group has ended."""

    def go(self, group: str, why: str) -> None:
        """Record that this task has stopped waiting, because its wait would never have ended."""

    def why_gone(self, wait: Wait, rank: int) -> str:
        """Return the verdict on this wait, or else the reason why the task ``rank`` has left, or an empty string if
        neither is known.
        """


class Lookout:
    """One task's part in the detection of deadlocks. ``tasks`` are the names of all tasks of the run, in rank order."""

    def __init__(self, board: Board, rank: int, tasks: Sequence[str]) -> None:
        self._board = board
        self._rank = rank
        self._tasks = list(tasks)
        self._lock = threading.Lock()
        self._mine: dict[str, Wait] = {}
        self._seen: dict[tuple[int, str, int], int] = {}
        self._post()

    def look(self, wait: Wait, *, compare: bool = False) -> str:
        """Check a wait. Return the reason why it will never end, or an empty string if it may end. Call this regularly
        during the wait.

        ``compare`` is for collectives that never end if their calls differ: different texts are then a reason. Others
        must not use it: they compare the calls as soon as the last task has arrived, and can continue afterwards.
        """
        heartbeat.waits_for_others()
        with self._lock:
            before = self._mine.get(wait.group)
            beat = before.beat + 1 if before is not None and before.number == wait.number else 1
            self._mine[wait.group] = wait._replace(beat=beat)
            self._post()
            verdict = self._verdict_on(wait)
            if verdict:
                return verdict
            waits = {rank: self._waits_of(rank) for rank in range(len(self._tasks))}
            here = {rank: [w for w in ws if _key(0, w) == _key(0, wait)] for rank, ws in waits.items()}
            if compare and len({w.text for ws in here.values() for w in ws}) > 1:
                return self._tell({rank: ws for rank, ws in here.items() if ws})
            stuck = _stuck(waits)
            seen, self._seen = self._seen, {_key(rank, w): w.beat for rank, ws in stuck.items() for w in ws}
            # A task that has checked again since its entry was last read was still waiting at that time, so the waits
            # overlapped.
            sure = {
                rank: [w for w in ws if w.beat > seen.get(_key(rank, w), w.beat) or rank == self._rank]
                for rank, ws in stuck.items()
            }
            sure = _stuck({rank: ws for rank, ws in sure.items() if len(ws) == len(waits[rank])})
            if not any(_key(self._rank, w) == _key(self._rank, wait) for w in sure.get(self._rank, [])):
                return ""
            return self._tell(sure)

    def over(self, group: str) -> None:
        """Record that the wait in that group has ended."""
        with self._lock:
            if self._mine.pop(group, None) is not None:
                self._post()

    def go(self, group: str, why: str) -> None:
        """Record that this task has stopped waiting, because its wait would never have ended."""
        self._board.write(_gone(self._rank, group), why)
        self.over(group)
        self._board.linger()

    def why_gone(self, wait: Wait, rank: int) -> str:
        """Return the verdict on this wait, or else the reason why the task ``rank`` has left, or an empty string if
        neither is known.
        """
        why = self._verdict_on(wait) or self._board.read(_gone(rank, wait.group))
        if why:
            self._board.linger()
        return why

    def tell(self, wait: Wait, verdict: str) -> None:
        """Send the verdict to the tasks in ``wait.missing``: the reason why their wait would never end."""
        for rank in wait.missing:
            self._board.write(_verdict(rank, wait), verdict)
        self.has_given_up(wait)
        self.agree(wait)
        self._await_all(wait, "gone")

    def agree(self, wait: Wait) -> None:
        """Record that this task has read its verdict, and wait for a limited time until the other tasks have read
        theirs.

        The verdict may make this task end, and with it the board if this task hosts the board.
        """
        self._mark(wait, "heard")
        self._await_all(wait, "heard")

    def has_given_up(self, wait: Wait) -> None:
        """Record that this task has stopped waiting."""
        self._mark(wait, "gone")

    def _mark(self, wait: Wait, what: str) -> None:
        if not self._board.lasts:
            self._board.write(f"{_verdict(self._rank, wait)}-{what}", "yes")

    def _await_all(self, wait: Wait, what: str) -> None:
        left = [rank for rank in wait.ranks if rank != self._rank and not self._board.lasts]
        end = time.monotonic() + HEARD_S
        while left and not self._board.lost and time.monotonic() < end:
            left = [rank for rank in left if not self._board.read(f"{_verdict(rank, wait)}-{what}")]

    def _tell(self, waits: Waits) -> str:
        """Notify the tasks whose waits will never end, and tasks that will join such a wait later. Returns the verdict.

        A task may join so late that the other tasks have already ended.
        """
        groups = {w.ranks for ws in waits.values() for w in ws}
        texts = {
            f"{self._tasks[rank]}{n or ''}": w.text + (f" among the ranks {list(w.ranks)}" if len(groups) > 1 else "")
            for rank, ws in waits.items()
            for n, w in enumerate(ws)
        }
        verdict = str(differ(texts))
        keys = {_verdict(rank, w) for ws in waits.values() for w in ws for rank in w.ranks if rank != self._rank}
        for key in sorted(keys):
            self._board.write(key, verdict)
        return verdict

    def _verdict_on(self, wait: Wait) -> str:
        """Return the verdict on this task's wait, or an empty string if there is none."""
        return self._board.read(_verdict(self._rank, wait))

    def others(self, group: str, number: int) -> Waits:
        """Return the known waits of other tasks in that collective, keyed by rank."""
        found = {rank: self._waits_of(rank) for rank in range(len(self._tasks)) if rank != self._rank}
        return {
            rank: here
            for rank, ws in found.items()
            if (here := [w for w in ws if (w.group, w.number) == (group, number)])
        }

    def _post(self) -> None:
        self._board.write(f"waits-{self._rank}", json.dumps(list(self._mine.values())))

    def _waits_of(self, rank: int) -> list[Wait]:
        if rank == self._rank:
            return list(self._mine.values())
        text = self._board.read(f"waits-{rank}")
        return [_read(entry) for entry in json.loads(text)] if text else []


def _read(entry: list[Any]) -> Wait:
    group, number, text, ranks, missing, beat = entry
    return Wait(group, number, text, tuple(ranks), tuple(missing), beat)


def _key(rank: int, wait: Wait) -> tuple[int, str, int]:
    return rank, wait.group, wait.number


def _verdict(rank: int, wait: Wait) -> str:
    return f"{VERDICT}-{rank}-{wait.group}-{wait.number}"


def _gone(rank: int, group: str) -> str:
    return f"{GONE}-{rank}-{group}"


def _stuck(waits: Waits) -> Waits:
    """Return the waits that are part of, or lead to, a cycle of tasks that wait for each other in other collectives."""
    left = {rank: list(ws) for rank, ws in waits.items() if ws}
    while True:
        kept = {
            rank: [w for w in ws if any(_is_blocked(left, waits, m, w) for m in w.missing)] for rank, ws in left.items()
        }
        kept = {rank: ws for rank, ws in kept.items() if ws}
        if kept == left:
            return left
        left = kept


def _is_blocked(left: Waits, waits: Waits, rank: int, wait: Wait) -> bool:
    """Return whether the task of that rank will never reach the collective of ``wait``, because all its waits are
    stuck.

    A task that waits in a later collective of the group has already completed this one.
    """
    has_come = any(w.group == wait.group and w.number >= wait.number for w in waits.get(rank, []))
    return not has_come and bool(left.get(rank)) and left[rank] == list(waits[rank])
