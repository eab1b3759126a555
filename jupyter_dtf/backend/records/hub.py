"""All runs known to one viewer (a Jupyter server, a kernel): live runs from links, past runs from the store."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

import msgspec

from ...errors import Conflict, NotFound, Unavailable
from ...schema.events import AnyEvent, RunChanged, UnknownEvent, decode_event
from ...schema.run import RunDescriptor, RunInfo, RunState
from ...schema.run_marks import RunPatch
from . import submission_files
from .apply_event import copy_of, newest
from .archive import summarize
from .kept_media import KeptMedia
from .marked import Marked
from .output_files import remove_output
from .output_reader import OutputReader
from .run_record import RunRecord
from .series import Series
from .store import Store

_log = logging.getLogger(__name__)

Found = TypeVar("Found")

MAX_IDLE_RECORDS = 16


class Hub:
    """Thread-safe records of many runs.

    Each run has one source of truth: its record, which is built from events, or, while no record is loaded, the store's
    summary of the same events.

    Events are applied in order, by one thread at a time per run. Subscribers are called in the thread that made the
    change, without any lock held. They should only record that there is something to read.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        self._lock = threading.RLock()
        self._summaries: dict[str, RunInfo] = {}  # sent by links before the events
        self._records: OrderedDict[str, RunRecord] = OrderedDict()  # least recently used first
        self._subscribers: dict[int, Callable[[str], object]] = {}
        self._raised: set[int] = set()
        self._next_subscriber = 0
        self._marked = Marked(store)

    # -- from links --------------------------------------------------------------------------------------------------

    def add_run(self, run: RunDescriptor) -> None:
        """Add a run whose events a link will deliver, starting with the first event. A known run is not changed.

        If the store has it, its record begins with the stored events.
        """
        stored = None
        with contextlib.suppress(Unavailable):  # live runs can be seen without the store
            stored = self._stored(run.id)
        with self._lock:
            if run.id in self._records:
                return
            if stored is None:
                self._records[run.id] = RunRecord(run)
                self._forget_idle()
        self._tell(run.id)

    def add_summary(self, info: RunInfo) -> None:
        """Add the summary of a run whose events have not all arrived. It is shown until all of them have."""
        with self._lock:
            record = self._records.get(info.id)
            if record is not None and record.next_seq >= info.next_seq:
                return
            self._summaries[info.id] = info
        self._tell(info.id)

    def next_seq(self, run_id: str) -> int:
        """Return the number of the next event for a link to request: the first that is not in memory or in the store.

        An active run is loaded from the store, so that its record is in memory for the next event. This can take a
        while.
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
        """Apply the run's next encoded event. A known event is ignored, and an event that cannot be decoded is skipped.

        Raises NotFound for an unknown run, and Conflict if earlier events are missing.
        """
        record = self.record(run_id)
        event = _read(run_id, seq, data)
        with self._lock:
            if seq < record.next_seq:
                return
            record.apply(seq, event)
            if (summary := self._summaries.get(run_id)) is not None and record.next_seq >= summary.next_seq:
                del self._summaries[run_id]
        self._tell(run_id)

    def mark_lost(self, run_id: str, message: str) -> None:
        """Mark a run whose cluster is gone as LOST, in memory and in the store, unless its end is in the store.

        The message names the checkpoint that the run can be resumed from, if there is one.

        Raises NotFound.
        """
        record = self.record(run_id)
        if self.store is not None:
            try:
                self._mark_stored(self.store, record, message)
            except Unavailable as error:  # for example, the disk is full: mark the run in memory nevertheless
                _log.warning("The run %s is lost, but its new state cannot be saved: %s", run_id, error)
        with self._lock:
            if not record.info.state.is_final:
                lost = RunChanged(time=time.time(), state=RunState.LOST, message=_with_checkpoint(message, record))
                record.apply(record.next_seq, lost)
            self._summaries.pop(run_id, None)
        self._tell(run_id)

    # -- for viewers -------------------------------------------------------------------------------------------------

    def record(self, run_id: str) -> RunRecord:
        """Return the record of a run, loaded from the store if it is not in memory. Raises NotFound.

        The record continues to change. Its ``events`` and the arrays of its series may be read in any thread.
        Everything else must be read through methods of this class, which take the lock, or in the thread that delivers
        the events.
        """
        with self._lock:
            record = self._records.get(run_id)
            if record is not None:
                self._records.move_to_end(run_id)
                return record
        if self.store is not None:  # without the lock: a long run takes a while to read
            with contextlib.suppress(NotFound):
                try:
                    record = RunRecord.replay(self.store.run(run_id), self.store.events(run_id))
                except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
                    raise Unavailable(
                        f"The events of the run {run_id!r:.100} in the store cannot be decoded: {error!s:.200}"
                    ) from None
        if record is None:
            raise _no_run(run_id)
        with self._lock:
            record = self._records.setdefault(run_id, record)
            self._forget_idle()
        return record

    def info(self, run_id: str) -> RunInfo:
        """Return a copy of the run's summary. Raises NotFound."""
        self.look_for_marks()
        return self.current(run_id)

    def current(self, run_id: str) -> RunInfo:
        """Return what ``info`` does, without checking for marks of other processes, and so without calling subscribers.

        A subscriber may call this with its own lock held. Raises NotFound.
        """
        with self._lock:
            info = self._summary(run_id, None) if run_id in self._records else None
        if info is None:
            stored = self._stored(run_id)
            with self._lock:
                info = self._summary(run_id, stored)
        if info is None:
            raise _no_run(run_id)
        return self._marked.onto(info)

    def runs(self, *, deleted: bool | None = False) -> list[RunInfo]:
        """Return copies of the summaries of all runs, live and past, newest first.

        ``deleted``: False leaves out deleted runs, True returns only deleted runs, None returns all runs.
        """
        self.look_for_marks(now=True)
        found = {info.id: info for info in self.store.runs()} if self.store is not None else {}
        with self._lock:
            for run_id in {*self._summaries, *self._records}:
                if (info := self._summary(run_id, found.get(run_id))) is not None:
                    found[run_id] = info
        infos = map(self._marked.onto, found.values())
        shown = [info for info in infos if deleted is None or (info.marks.deleted is not None) is deleted]
        return sorted(shown, key=lambda info: (-info.created, info.id))

    def look_for_marks(self, *, now: bool = False) -> None:
        """Check whether another process has changed the marks of runs, at most every ``LOOK_S`` unless ``now``."""
        for run_id in self._marked.look(now=now):
            self._tell(run_id)

    def mark(self, run_id: str, patch: RunPatch) -> RunInfo:
        """Change the marks of a run: its name, tags or note; archive it, or delete it so that it can be restored.

        Raises NotFound, Conflict for deleting an active run, Unavailable if the marks cannot be written.
        """
        info = self.info(run_id)
        if patch.deleted:
            _check_ended(info)
        self._marked.change(run_id, patch)
        self._tell(run_id)
        return self.info(run_id)

    def events(self, run_id: str, after: int = -1, limit: int | None = None) -> list[tuple[int, AnyEvent]]:
        """Return ``(seq, event)`` for a run's events after sequence number ``after``, as ``RunRecord.events`` does.

        Raises NotFound.
        """
        record = self.record(run_id)
        with self._lock:
            return record.events(after, limit)

    def output(self, run_id: str, task: str = "") -> OutputReader:
        """Return a reader for the output of all of a run's tasks, or of one task, in the run's files.

        Raises NotFound.
        """
        return OutputReader(Path(self.info(run_id).run_dir), task)

    def lines(self, run_id: str, metrics: Collection[str] | None = None) -> dict[tuple[str, str], Series]:
        """Return the plot lines of these metrics of a run (default: all); see RunRecord.lines. Raises NotFound."""
        record = self.record(run_id)
        for metric in record.metrics if metrics is None else metrics:
            while self._advance_mean(record, metric):  # releases the lock in between: links need it
                pass
        with self._lock:
            return record.lines(metrics)

    def replaced(self, run_id: str, metrics: Collection[str]) -> dict[tuple[str, str, int], Series]:
        """Return the points of these metrics that later attempts replaced (see RunRecord). Raises NotFound."""
        record = self.record(run_id)
        with self._lock:
            return record.replaced(metrics)

    def media(self, run_id: str, read: Callable[[KeptMedia], Found]) -> Found:
        """Call ``read`` with the media of a run, such as histograms, and return its result. Raises NotFound."""
        record = self.record(run_id)
        with self._lock:
            return read(record.media)

    def _advance_mean(self, record: RunRecord, metric: str) -> bool:
        with self._lock:
            return record.advance_mean(metric)

    def delete(self, run_id: str) -> None:
        """Delete a run that has ended from memory and from the store, with its output.

        Raises NotFound, and Conflict while it is active.
        """
        info = self.info(run_id)
        _check_ended(info)
        if self.store is not None:
            with contextlib.suppress(NotFound):
                self.store.delete(run_id)
        if info.run_dir:
            submission_files.remove(Path(info.run_dir))
            remove_output(Path(info.run_dir))
        with self._lock:
            self._records.pop(run_id, None)
            self._summaries.pop(run_id, None)
        self._marked.forget(run_id)
        self._tell(run_id)

    def subscribe(self, callback: Callable[[str], object]) -> Callable[[], None]:
        """Call ``callback(run_id)`` after any change to a run. Returns a function that unsubscribes it.

        If a callback raises an exception, this is logged once, and the callback is still called for later changes.
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

    def watch(self, run_id: str, changed: threading.Event) -> Callable[[], None]:
        """Set ``changed`` after any change to the run. Returns a function that ends this."""
        return self.subscribe(lambda changed_id: changed.set() if changed_id == run_id else None)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _mark_stored(self, store: Store, record: RunRecord, message: str) -> None:
        run_id = record.info.id
        for seq, data in store.events(run_id, record.next_seq - 1):  # events that the link did not deliver
            event = decode_event(data)
            with self._lock:
                if seq == record.next_seq:
                    record.apply(seq, event)
        if not record.info.state.is_final:
            store.mark_lost(run_id, _with_checkpoint(message, record), known=record.info.descriptor)
            summarize(store, run_id)

    def _stored(self, run_id: str) -> RunInfo | None:
        if self.store is None:
            return None
        with contextlib.suppress(NotFound):
            return self.store.run(run_id)
        return None

    def _summary(self, run_id: str, stored: RunInfo | None) -> RunInfo | None:
        """Return the run's summary from its record or the store, or from a link while the link's summary is newer."""
        record = self._records.get(run_id)
        own = record.info if record is not None else stored
        sent = self._summaries.get(run_id)
        return newest(own, sent) if own is not None else None if sent is None else copy_of(sent)

    def _forget_idle(self) -> None:
        """Drop records that can be reloaded from the store, beyond MAX_IDLE_RECORDS, least recently used first."""
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
                _log.exception("A subscriber to runs raised an exception; its further exceptions are not logged")


def _read(run_id: str, seq: int, data: bytes) -> AnyEvent | UnknownEvent:
    try:
        return decode_event(data)
    except msgspec.MsgspecError as error:  # no version writes this; the run continues anyway
        _log.warning("The event %d of the run %s cannot be read: %s", seq, run_id, error)
        return UnknownEvent(type="", why=str(error))


def _with_checkpoint(message: str, record: RunRecord) -> str:
    """Return the reason why a run was lost, naming the checkpoint that it can be resumed from."""
    last = record.info.checkpoint
    return message if last is None else f"{message}. Its last checkpoint is from step {last.step}"


def _check_ended(info: RunInfo) -> None:
    if not info.state.is_final:
        raise Conflict(f"A run must have ended to be deleted, but {info.id} is {info.state.value}: stop it first")


def _no_run(run_id: str) -> NotFound:
    return NotFound(f"There is no run with the id {run_id!r:.100}")
