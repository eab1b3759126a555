"""Reports collectives that wait too long, each with one note in the run's events that names the missing tasks."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ....errors import InvalidInput
from .calls import described_tensors
from .deadlocks import LOOK_S, Lookout, Wait
from .hierarchical import HierarchicalReducer
from .primitive import Reducer
from .program_order import add, in_graph, put

Stalled = Callable[[list[str], str], None]
"""Called with the names of missing tasks (none if unknown) and the call in which the other tasks are waiting."""


def stall_seconds() -> float:
    """Return the time in seconds after which a waiting collective is reported: DTF_STALL_SECONDS, or 60.

    Raises InvalidInput for an invalid value.
    """
    value = os.environ.get("DTF_STALL_SECONDS", "60")
    try:
        seconds = float(value)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise InvalidInput(f"`DTF_STALL_SECONDS` must be a number > 0, got {value!r}", field="DTF_STALL_SECONDS")
    return seconds


def note_stalls(ctx: Any) -> Stalled:
    """Return a function that adds a note about a stalled collective to the run's events."""
    seconds = stall_seconds()

    def stalled(missing: list[str], what: str) -> None:
        if missing:
            text = f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} not arrived after {seconds:g} s"
        else:
            text = f"Some tasks have not arrived after {seconds:g} s; this task cannot determine which"
        ctx.note("warning", "A collective is waiting", text + (f" ({what})" if what else ""), mark="waits")

    return stalled


class WatchedReducer(Reducer):
    """A reducer that is watched by a thread, because no code of this package runs while TensorFlow waits.

    TensorFlow variables hold the numbers of started and finished collectives, and the last call. The thread reports
    waits that take too long, and makes the reducer give up when ``lookout`` detects that a wait will never end because
    other tasks have made different calls. ``ranks`` are the tasks' ranks in the run, and ``tasks`` their names.
    ``group`` is the same in all tasks.
    """

    def __init__(
        self,
        inner: Reducer,
        *,
        group: str,
        ranks: Sequence[int],
        tasks: Sequence[str],
        lookout: Lookout,
        stall_s: float,
        stalled: Stalled,
    ) -> None:
        super().__init__(inner.rank, inner.size)
        self._inner = inner
        self._group = group
        self._ranks = tuple(ranks)
        self._tasks = list(tasks)
        self._lookout = lookout
        self._stall_s = stall_s
        self._stalled = stalled
        self._texts: dict[str, int] = {}
        with tf.init_scope(), tf.device("CPU:0"):
            self._begun = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._ended = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._call = tf.Variable(0, dtype=tf.int64, trainable=False)
            self._lengths = tf.Variable([], dtype=tf.int64, shape=[None], trainable=False)
        if isinstance(inner, HierarchicalReducer):
            inner.on_different(self._tell)
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="dtf-stalls", daemon=True).start()

    def reduce_tensors(self, tensors: Sequence[tf.Tensor], op: str, name: str) -> list[tf.Tensor]:
        if in_graph():
            return self._inner.reduce_tensors(tensors, op, name)  # a TensorFlow 1 graph cannot use these variables
        with tf.control_dependencies(self._say(described_tensors(name, tensors), tensors)):
            begun = add(self._begun, 1)
        with tf.control_dependencies([begun] if begun is not None else []):
            reduced = self._inner.reduce_tensors(tensors, op, name)
        with tf.control_dependencies(reduced):
            add(self._ended, 1)
        return reduced

    def give_up(self, why: str) -> None:
        self._inner.give_up(why)

    def close(self, failed: bool = False) -> None:
        self._closed.set()
        self._inner.close(failed)

    def _say(self, text: str, tensors: Sequence[tf.Tensor]) -> list[Any]:
        """Return the ops that store the call, including the sizes that are not known statically."""
        number = self._texts.setdefault(text, len(self._texts))
        said = [put(self._call, tf.constant(number, tf.int64))]
        unknown = [t for t in tensors if not t.shape.is_fully_defined()]
        if unknown:
            lengths = [tf.shape(t, tf.int64)[i] for t in unknown for i, n in enumerate(t.shape) if n is None]
            said.append(put(self._lengths, tf.stack(lengths)))
        return [op for op in said if op is not None]

    def _watch(self) -> None:
        last, since, noted = 0, time.monotonic(), 0
        waits = False
        while not self._closed.wait(min(LOOK_S, self._stall_s / 4)):
            begun, ended = counts = self._counts()
            text = self._text()
            if self._counts() != counts:  # the description may already be that of the next collective
                continue
            if begun != last or begun == ended:
                if waits:
                    self._lookout.over(self._group)
                last, since, waits = begun, time.monotonic(), False
                continue
            waits = True
            if self._gives_up(begun, text):
                return
            if noted != begun and time.monotonic() - since >= self._stall_s:
                noted = begun
                self._say_who_is_missing(begun)

    def _tell(self, why: str) -> None:
        others = tuple(rank for rank in self._ranks if rank != self._ranks[self.rank])
        self._lookout.tell(Wait(self._group, int(self._begun.numpy()), "", self._ranks, others), why)

    def _counts(self) -> tuple[int, int]:
        """Return the numbers of started and finished collectives."""
        return int(self._begun.numpy()), int(self._ended.numpy())

    def _text(self) -> str:
        """Return the description of the last call, with its sizes, or an empty string before the first call."""
        number = int(self._call.numpy())
        lengths = iter(self._lengths.numpy().tolist())
        return re.sub(r"\?", lambda _: str(next(lengths, "?")), [*self._texts, ""][number])

    def _gives_up(self, begun: int, text: str) -> bool:
        others = tuple(rank for rank in self._ranks if rank != self._ranks[self.rank])
        wait = Wait(self._group, begun, text, self._ranks, others)
        why = self._lookout.look(wait, compare=True)
        if why:
            self._lookout.agree(wait)
            self._inner.give_up(why)
            self._lookout.has_given_up(wait)
        return bool(why)

    def _say_who_is_missing(self, begun: int) -> None:
        come = {self._ranks[self.rank], *self._lookout.others(self._group, begun)}
        missing = [name for rank, name in zip(self._ranks, self._tasks, strict=True) if rank not in come]
        if min(come) == self._ranks[self.rank] and missing:
            self._stalled(missing, "")
