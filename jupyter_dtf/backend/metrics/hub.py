"""What one viewer (a Jupyter server, a kernel) knows of all runs: those that links tell of, and those in the store."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

from ...errors import Conflict, NotFound
from ...schema.events import AnyEvent, RunChanged, decode_event
from ...schema.run import RunInfo, RunState
from .archive import summarize
from .record import RunRecord
from .series import Series
from .store import Store

_log = logging.getLogger(__name__)

MAX_IDLE_RECORDS = 16


class Hub:
    """Records of many runs, for any thread.

    Events are applied by one thread at a time per run, in order. Subscribers are called in the thread that changed
    something, without any lock held: they should only note that there is something to read.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._announced: dict[str, RunInfo] = {}  # by links
        self._records: OrderedDict[str, RunRecord] = OrderedDict()  # least recently used first
        self._subscribers: dict[int, Callable[[str], object]] = {}
        self._raised: set[int] = set()
        self._next_subscriber = 0

    # -- from links --------------------------------------------------------------------------------------------------

    def add_run(self, info: RunInfo) -> None:
        """A run that a link announced, or a newer description of one known. ``info`` is copied."""
        stored = self._stored(info.id) if info.state.is_final else None
        with self._lock:
            known = self._announced.get(info.id)
            if known is not None and known.next_seq > info.next_seq:
                return
            if stored is not None and stored.next_seq >= info.next_seq and info.id not in self._records:
                self._announced.pop(info.id, None)  # the store knows all of it, and what its points tell
            else:
                self._announced[info.id] = _copy(info)
        self._tell(info.id)

    def next_seq(self, run_id: str) -> int:
        """The sequence number of the first event that is not known here, from memory or store; a link asks for it.

        A run that is under way is read from the store, which can take a while, so that its next event finds it here.
        """
        with self._lock:
            record = self._records.get(run_id)
            if record is not None:
                return record.next_seq
        stored = self._stored(run_id)
        if self.store is None or stored is None:
            return 0
        return self.store.next_seq(run_id) if stored.state.is_final else self.record(run_id).next_seq

    def apply(self, run_id: str, seq: int, data: bytes) -> None:
        """The run's next event, encoded. One that is known already is ignored.

        Raises NotFound for a run that was never announced, Conflict when events before this one are missing,
        msgspec.ValidationError when it is not an event.
        """
        record = self.record(run_id)
        event = decode_event(data)
        with self._lock:
            if seq < record.next_seq:
                return
            record.apply(seq, event)
        self._tell(run_id)

    def mark_lost(self, run_id: str, message: str) -> None:
        """A run whose cluster went away: it becomes LOST, here and in the store, unless the store knows its end.

        Raises NotFound.
        """
        record = self.record(run_id)
        if self.store is not None:
            for seq, data in self.store.events(run_id, record.next_seq - 1):  # what the link did not bring any more
                event = decode_event(data)
                with self._lock:
                    if seq == record.next_seq:
                        record.apply(seq, event)
            if not record.info.state.is_final:
                with contextlib.suppress(NotFound):  # the cluster ended before it wrote anything
                    self.store.mark_lost(run_id, message)
                    summarize(self.store, run_id)
        with self._lock:
            if not record.info.state.is_final:
                record.apply(record.next_seq, RunChanged(time=time.time(), state=RunState.LOST, message=message))
            self._announced.pop(run_id, None)
        self._tell(run_id)

    # -- for viewers -------------------------------------------------------------------------------------------------

    def record(self, run_id: str) -> RunRecord:
        """The record of a run, read from the store where it is not in memory. Raises NotFound.

        The record goes on changing; its ``events`` and the arrays of its series may be read in any thread, the rest
        under ``locked`` or in the thread that links deliver in.
        """
        with self._lock:
            record = self._records.get(run_id)
            if record is not None:
                self._records.move_to_end(run_id)
                return record
            info = self._announced.get(run_id)
        if self.store is not None:  # without the lock: a long run takes a while to read
            with contextlib.suppress(NotFound):
                record = RunRecord.replay(info or self.store.run(run_id), self.store.events(run_id))
        if record is None:
            if info is None:
                raise NotFound(f"A run is named by its id. Received: {run_id!r:.100}, which no run has")
            record = RunRecord(info)
        with self._lock:
            record = self._records.setdefault(run_id, record)
            self._forget_idle()
            return record

    def info(self, run_id: str) -> RunInfo:
        """What is known of a run, as a copy. Raises NotFound."""
        with self._lock:
            known = self._known(run_id)
            if known is not None:
                return known
        stored = self._stored(run_id)
        if stored is None:
            raise NotFound(f"A run is named by its id. Received: {run_id!r:.100}, which no run has")
        return stored

    def runs(self) -> list[RunInfo]:
        """Every run, live and past, newest first; copies."""
        found = {info.id: info for info in self.store.runs()} if self.store is not None else {}
        with self._lock:
            for run_id in {*self._announced, *self._records}:
                known = self._known(run_id)
                if known is not None and (run_id not in found or known.next_seq >= found[run_id].next_seq):
                    found[run_id] = known
        return sorted(found.values(), key=lambda info: (-info.created, info.id))

    def events(self, run_id: str, after: int = -1) -> list[tuple[int, AnyEvent]]:
        """(seq, event) of a run after ``after``, but its points. Raises NotFound."""
        record = self.record(run_id)
        with self._lock:
            return record.events(after)

    def lines(self, run_id: str) -> dict[tuple[str, str], Series]:
        """What a plot of a run shows (RunRecord.lines). Raises NotFound."""
        record = self.record(run_id)
        for metric in record.metrics:
            while self._advance_mean(record, metric):  # lets go of the lock in between: links need it
                pass
        with self._lock:
            return record.lines()

    def _advance_mean(self, record: RunRecord, metric: str) -> bool:
        with self._lock:
            return record.advance_mean(metric)

    def delete(self, run_id: str) -> None:
        """Forget a run that has ended, here and in the store. Raises NotFound, and Conflict while it is under way."""
        info = self.info(run_id)
        if not info.state.is_final:
            raise Conflict(
                f"A run is deleted after it has ended; stop it first. Received: {run_id}, {info.state.value}"
            )
        if self.store is not None:
            with contextlib.suppress(NotFound):
                self.store.delete(run_id)
        with self._lock:
            self._records.pop(run_id, None)
            self._announced.pop(run_id, None)
        self._tell(run_id)

    def subscribe(self, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call ``callback(run_id)`` after anything of a run has changed; returns what ends it.

        A callback that raises is logged once and goes on being called.
        """
        with self._lock:
            number = self._next_subscriber
            self._next_subscriber += 1
            self._subscribers[number] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(number, None)
                self._raised.discard(number)

        return unsubscribe

    # -- inside ------------------------------------------------------------------------------------------------------

    def _stored(self, run_id: str) -> RunInfo | None:
        if self.store is None:
            return None
        with contextlib.suppress(NotFound):
            return self.store.run(run_id)
        return None

    def _known(self, run_id: str) -> RunInfo | None:
        record, announced = self._records.get(run_id), self._announced.get(run_id)
        if record is None or (announced is not None and announced.next_seq > record.next_seq):
            if announced is None:
                return None
            info = _copy(announced)
            if record is not None:  # the description is ahead of the events, which alone tell these two
                info.latest, info.sparkline = dict(record.info.latest), list(record.info.sparkline)
            return info
        return _copy(record.info)

    def _forget_idle(self) -> None:
        """Drop records that the store can give back, beyond MAX_IDLE_RECORDS, longest unused first."""
        if self.store is None or len(self._records) <= MAX_IDLE_RECORDS:
            return
        for run_id, record in list(self._records.items())[: len(self._records) - MAX_IDLE_RECORDS]:
            if record.info.state.is_final and self.store.next_seq(run_id) >= record.next_seq:
                del self._records[run_id]

    def _tell(self, run_id: str) -> None:
        with self._lock:
            subscribers = list(self._subscribers.items())
        for number, callback in subscribers:
            self._call(number, callback, run_id)

    def _call(self, number: int, callback: Callable[[str], object], run_id: str) -> None:
        try:
            callback(run_id)
        except Exception:
            if number not in self._raised:
                self._raised.add(number)
                _log.exception("A subscriber to runs raised; it is logged this once")


def _copy(info: RunInfo) -> RunInfo:
    """A copy that shares nothing with the original."""
    return msgspec.convert(msgspec.to_builtins(info), RunInfo)
