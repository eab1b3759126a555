"""Collectives that wait too long: who is missing, said once, in a note among the run's events."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from ....errors import InvalidInput
from .base import Reducer

Stalled = Callable[[list[str], str], None]
"""Told the names of the tasks that are missing, none where they cannot be known, and what the others wait for."""


def stall_seconds() -> float:
    """After how long a collective that waits is told of: DTF_STALL_SECONDS, or 60. Raises InvalidInput."""
    value = os.environ.get("DTF_STALL_SECONDS", "60")
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InvalidInput(f"DTF_STALL_SECONDS is a number above 0. Received: {value!r}", field="DTF_STALL_SECONDS")
    return seconds


def note_stalls(ctx: Any) -> Stalled:
    """A function that notes a stall among the events of ``ctx``'s run."""
    seconds = stall_seconds()

    def stalled(missing: list[str], what: str) -> None:
        if missing:
            text = f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} not come after {seconds:g} s"
        else:
            text = f"Some tasks have not come after {seconds:g} s; which, cannot be seen from here"
        ctx.note("warning", "A collective waits", text + (f" ({what})" if what else ""))

    return stalled


class WatchedReducer(Reducer):
    """A reducer whose stalls a thread notices, where no code of ours runs while TensorFlow waits.

    Two variables count the collectives that were begun and ended. Each task leaves the first in a file of
    ``directory``, so that the tasks that share it know who is behind. ``tasks`` are the names, by rank.
    """

    def __init__(self, inner: Reducer, directory: Path, tasks: Sequence[str], stall_s: float, stalled: Stalled) -> None:
        super().__init__(inner.rank, inner.size)
        self._inner = inner
        self._directory = directory
        self._tasks = list(tasks)
        self._stall_s = stall_s
        self._stalled = stalled
        with tf.init_scope(), tf.device("CPU:0"):
            self._begun = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._ended = tf.Variable(0, dtype=tf.int64, trainable=False)
        directory.mkdir(parents=True, exist_ok=True)
        self._leave_word(0)
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="dtf-stalls", daemon=True).start()

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        graph = tf.compat.v1.get_default_graph()
        if not tf.executing_eagerly() and not getattr(graph, "building_function", False):
            return self._inner.reduce_tensors(tensors, op, name)  # a graph of TensorFlow 1 has variables of its own
        with tf.control_dependencies([self._begun.assign_add(1, read_value=False)]):
            reduced = self._inner.reduce_tensors(tensors, op, name)
        with tf.control_dependencies(reduced):
            self._ended.assign_add(1, read_value=False)
        return reduced

    def close(self, failed: bool = False) -> None:
        self._closed.set()
        self._inner.close(failed)

    def _watch(self) -> None:
        last, since, said = 0, time.monotonic(), 0
        while not self._closed.wait(self._stall_s / 4):
            begun, ended = int(self._begun.numpy()), int(self._ended.numpy())
            if begun != last:
                last, since = begun, time.monotonic()
                self._leave_word(begun)
            elif begun > ended and said != begun and time.monotonic() - since >= self._stall_s:
                said = begun
                self._say_who_is_missing(begun)

    def _leave_word(self, begun: int) -> None:
        aside = self._directory / f".{self.rank}"
        aside.write_text(str(begun))
        aside.replace(self._directory / str(self.rank))

    def _say_who_is_missing(self, begun: int) -> None:
        counts = {int(path.name): int(path.read_text()) for path in self._directory.glob("[0-9]*")}
        come = [rank for rank, count in counts.items() if count >= begun]
        if min(come) == self.rank:
            self._stalled([self._tasks[rank] for rank in sorted(counts) if rank not in come], "")
