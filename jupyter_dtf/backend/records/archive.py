"""Writes runs to the store without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from ...errors import Conflict, NotFound, Unavailable
from ...schema.events import LOG, MEDIA, POINTS, AnyEvent, UnknownEvent, decode_event
from ...schema.run import RunDescriptor, RunInfo
from .apply_event import apply_event
from .output_tail import ENDED_BYTES, EmptiedEvents, OutputTail, log_source
from .run_record import RunRecord
from .store import Store

WRITE_EVERY_S = 0.25
AT_ONCE_BYTES = 8 << 20
"""The maximum size of a transaction. On a nearly full disk, as many transactions as fit are saved."""
_RETRY_S = (0.5, 1.0, 2.0)
_KEPT_SUMMARIES = 100
"""The number of ended runs whose summaries are kept: more than the controller keeps, for events that arrive late."""

_log = logging.getLogger(__name__)

Event = tuple[str, int, bytes]


class _Batch:
    """The run summaries and events that are waiting to be written."""

    def __init__(self) -> None:
        self.infos: dict[str, bytes | RunInfo] = {}
        """The changed summaries, keyed by run; encoded once the batch is being written."""
        self.events: list[Event] = []
        self.emptied: list[Event] = []
        self.ended: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self.infos or self.events or self.emptied)

    @property
    def runs(self) -> set[str]:
        return {run_id for run_id, _, _ in self.events} | set(self.infos)

    def seal(self) -> None:
        """Encode the summaries, so that another thread can write them while further events change them here."""
        self.infos = {i: x if isinstance(x, bytes) else msgspec.msgpack.encode(x) for i, x in self.infos.items()}

    def put_before(self, later: _Batch) -> None:
        """Append a later batch to this one."""
        self.infos |= later.infos
        self.events += later.events
        self.emptied += later.emptied
        self.ended |= later.ended

    def write(self, store: Store) -> None:
        """Write as much as fits on the disk, and remove the written data from the batch. Raises Unavailable."""
        while self.events:
            size = count = 0
            while count < len(self.events) and size < AT_ONCE_BYTES:
                size += len(self.events[count][2])
                count += 1
            whole = count == len(self.events)  # summaries are written with the last events
            store.write(self.infos.values() if whole else (), self.events[:count])
            if whole:
                self.infos = {}
            del self.events[:count]
        if self.infos:
            store.write(self.infos.values(), ())
            self.infos = {}
        if self.emptied:
            store.replace(self.emptied)
            self.emptied = []
        for run_id in list(self.ended):
            summarize(store, run_id)
            del self.ended[run_id]


class Archive:
    """Accepts descriptors and events on one event loop and writes them in a thread, in order and in batches.

    A batch is written at most ``WRITE_EVERY_S`` seconds after its first event, and immediately when a run ends. A batch
    that cannot be written is kept and retried, with pauses of up to two seconds; meanwhile, ``error`` contains the
    reason (otherwise it is empty). ``on_change()`` is called when ``error`` changes and when more runs become
    ``unsaved``.
    """

    def __init__(self, store: Store | Callable[[], Store]) -> None:
        """``store`` is the store, or a function that opens the store when there is something to write."""
        self.error = ""
        self.unsaved: set[str] = set()
        """The runs that could not be written completely."""
        self._store = store if isinstance(store, Store) else None
        self._open = store
        self.on_change: Callable[[], None] = lambda: None
        self.on_end: Callable[[RunInfo], None] = lambda info: None
        """Called with each run that has ended."""
        self._batch = _Batch()
        self._summaries: dict[str, RunInfo] = {}
        self._tails: dict[str, OutputTail] = {}
        self._emptied = EmptiedEvents()
        self._wake = asyncio.Event()  # there is something to write
        self._hurry = asyncio.Event()  # and it should be written immediately
        self._writing = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "jupyter_dtf-archive")
        self._task: asyncio.Task[None] | None = None

    def put_run(self, run: RunDescriptor) -> None:
        """Add a submitted run. Must be called before the run's events are appended."""
        self._summaries[run.id] = self._batch.infos[run.id] = RunInfo.of(run)
        self._start()

    def append(self, run_id: str, seq: int, data: bytes) -> None:
        """Append a run's next encoded event. The end of a run is written immediately.

        Of a run's output, the store keeps only the last lines, as memory does.
        """
        self._batch.events.append((run_id, seq, data))
        with contextlib.suppress(msgspec.MsgspecError):  # the event is stored anyway; its readers report the error
            if data.startswith(LOG, 1):
                tail = self._tails.setdefault(run_id, OutputTail())
                self._empty(run_id, tail.add(seq, log_source(data), len(data)))
            elif not data.startswith(POINTS, 1) and (info := self._summaries.get(run_id)) is not None:
                self._apply(info, seq, decode_event(data))
        self._start()

    def _apply(self, info: RunInfo, seq: int, event: AnyEvent | UnknownEvent) -> None:
        """Update a run's summary and schedule writing it."""
        apply_event(info, event)
        info.next_seq = seq + 1
        self._batch.infos[info.id] = info
        if info.state.is_final:  # also after each event that follows the end, because it may complete the points
            self._batch.ended[info.id] = None
            if (tail := self._tails.pop(info.id, None)) is not None:
                self._empty(info.id, tail.shrink(ENDED_BYTES))
            self._forget_old()
            self._hurry.set()
            self.on_end(info)

    def _forget_old(self) -> None:
        ended = [run_id for run_id, info in self._summaries.items() if info.state.is_final]
        for run_id in ended[:-_KEPT_SUMMARIES]:
            del self._summaries[run_id]

    async def flush(self) -> None:
        """Write everything added so far to the file. Raises Unavailable if this is currently impossible."""
        await self._write()

    async def close(self) -> None:
        """Write the remaining data, then end the thread.

        Raises Unavailable if writing fails. In this case, call the method again, or save the runs elsewhere
        (``save_to``).
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self._write()
        self._thread.shutdown(wait=False)

    @property
    def waiting(self) -> set[str]:
        """The runs with summaries or events that have not been written to the store yet."""
        return self.unsaved | self._batch.runs

    async def save_to(self, path: Path, logs: Mapping[str, Sequence[bytes]], runs: Iterable[RunDescriptor]) -> None:
        """Write the unsaved runs to a separate store at ``path``. Raises Unavailable.

        ``logs`` has the events of these runs that still exist, including those in the store, keyed by run; ``runs`` has
        the runs' descriptors.
        """

        def work(waiting: set[str], events: list[Event], infos: list[bytes | RunInfo]) -> None:
            store = Store(path)
            try:
                # The waiting events include media that ``logs`` may have dropped; events in the store are not replaced.
                store.write((), [event for event in events if event[0] not in logs or _is_media(event[2])])
                for run_id, log in logs.items():
                    store.write((), ((run_id, seq, data) for seq, data in enumerate(log)))
                store.write([*map(RunInfo.of, runs), *infos], ())
                for run_id in waiting:
                    with contextlib.suppress(Conflict):  # its first events are not available
                        summarize(store, run_id)
            finally:
                store.close()

        async with self._writing:  # a batch that is being written is back if that fails
            self._batch.seal()
            copies = self.waiting, list(self._batch.events), list(self._batch.infos.values())
            await asyncio.get_running_loop().run_in_executor(self._thread, work, *copies)

    async def open(self) -> None:
        """Try to open the store now, so that ``error`` is set immediately if opening fails."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._opened)
        except Unavailable as error:
            self._failed(str(error))
        if self.error:
            self.on_change()  # the callback may not have been set when the store failed

    def _empty(self, run_id: str, gone: list[tuple[int, tuple[str, str]]]) -> None:
        self._batch.emptied += [(run_id, seq, self._emptied.of(source)) for seq, source in gone]

    def _start(self) -> None:
        self._wake.set()
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="jupyter_dtf archive")

    async def _run(self) -> None:
        failures = 0
        while True:
            await self._wake.wait()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), WRITE_EVERY_S)
            try:
                await self._write()
                failures = 0
            except Exception:  # _write reported it; the next events must still be written
                await asyncio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                failures += 1

    async def _write(self) -> None:
        async with self._writing:
            batch, self._batch = self._batch, _Batch()
            batch.seal()
            self._wake.clear()
            self._hurry.clear()
            if not batch:
                return
            work = asyncio.get_running_loop().run_in_executor(self._thread, self._write_batch, batch)
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:  # the thread continues; wait for it to avoid two simultaneous writes
                await asyncio.wait([work])
                if work.exception() is not None:
                    self._put_back(batch)
                raise
            except BaseException as error:
                self._put_back(batch)
                self._failed(str(error))
                raise
            if self.error:
                _log.warning("Saving of runs has resumed")
                self.error = ""
                self.unsaved = set()
                self.on_change()

    def _failed(self, why: str) -> None:
        if not self.error:
            _log.error("Runs are not being saved; the archive will try again: %s", why)
        unsaved = self.unsaved | self._batch.runs
        changed = why != self.error or unsaved != self.unsaved
        self.error, self.unsaved = why, unsaved
        if changed:
            self.on_change()

    def _put_back(self, batch: _Batch) -> None:
        batch.put_before(self._batch)  # events that arrived in the meantime are newer
        self._batch = batch
        self._wake.set()

    def _write_batch(self, batch: _Batch) -> None:
        batch.write(self._opened())

    def _opened(self) -> Store:
        if self._store is None:
            assert not isinstance(self._open, Store)
            self._store = self._open()
        return self._store


def _is_media(data: bytes) -> bool:
    return data.startswith(MEDIA, 1)


def summarize(store: Store, run_id: str) -> None:
    """Complete the stored summary of an ended run from all of its events, points included."""
    with contextlib.suppress(NotFound):  # deleted in the meantime
        store.put_run(RunRecord.replay(store.run(run_id), store.events(run_id)).info)
