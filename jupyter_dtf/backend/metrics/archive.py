"""Writing runs to the store without holding up the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from concurrent.futures import ThreadPoolExecutor

import msgspec

from ...errors import DtfError, NotFound
from ...schema.run import RunInfo
from .record import RunRecord
from .store import Store

WRITE_EVERY_S = 0.25
_RETRY_S = (0.5, 1.0, 2.0, 5.0)

_log = logging.getLogger(__name__)


class Archive:
    """Takes descriptions and events on one event loop and writes them in a thread, in order, in batches.

    A batch is written at most ``WRITE_EVERY_S`` after its first event, and at once when a run ends. A batch that cannot
    be written is kept and tried again; ``error`` says why in the meantime, and is empty when all is well.
    """

    def __init__(self, store: Store) -> None:
        self.error = ""
        self._store = store
        self._infos: dict[str, bytes] = {}
        self._events: list[tuple[str, int, bytes]] = []
        self._ended: dict[str, None] = {}
        self._wake = asyncio.Event()  # there is something to write
        self._hurry = asyncio.Event()  # and it should not wait
        self._writing = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, "jupyter_dtf-archive")
        self._task: asyncio.Task[None] | None = None

    def put_run(self, info: RunInfo) -> None:
        """The present description of a run. A final one is written at once."""
        self._infos[info.id] = msgspec.msgpack.encode(info)
        if info.state.is_final:
            self._ended[info.id] = None
            self._hurry.set()
        self._start()

    def append(self, run_id: str, seq: int, data: bytes) -> None:
        """The run's next event, as bytes."""
        self._events.append((run_id, seq, data))
        self._start()

    async def flush(self) -> None:
        """Return when all that was given before is in the file. Raises Unavailable if it cannot be written now."""
        await self._write()

    async def close(self) -> None:
        """Write what is left, then end the thread. Raises Unavailable if it cannot be written; then it is lost."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            await self._write()
        finally:
            self._thread.shutdown(wait=False)

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
            except DtfError:
                await asyncio.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                failures += 1

    async def _write(self) -> None:
        async with self._writing:
            infos, events, ended = self._infos, self._events, self._ended
            self._infos, self._events, self._ended = {}, [], {}
            self._wake.clear()
            self._hurry.clear()
            if not infos and not events:
                return
            work = asyncio.get_running_loop().run_in_executor(self._thread, self._write_batch, infos, events, ended)
            try:
                await asyncio.shield(work)
            except asyncio.CancelledError:  # the thread goes on; wait for it, so that nothing is written twice at once
                await asyncio.wait([work])
                if work.exception() is not None:
                    self._put_back(infos, events, ended)
                raise
            except BaseException as error:
                self._put_back(infos, events, ended)
                if not self.error:
                    _log.error("Runs are not being saved; it will be tried again: %s", error)
                self.error = str(error)
                raise
            if self.error:
                _log.warning("Runs are being saved again")
                self.error = ""

    def _put_back(self, infos: dict[str, bytes], events: list[tuple[str, int, bytes]], ended: dict[str, None]) -> None:
        self._infos = {**infos, **self._infos}  # what came in the meantime is newer
        self._events = events + self._events
        self._ended = {**ended, **self._ended}
        self._wake.set()

    def _write_batch(
        self, infos: dict[str, bytes], events: list[tuple[str, int, bytes]], ended: dict[str, None]
    ) -> None:
        self._store.write(infos.values(), events)
        for run_id in ended:
            summarize(self._store, run_id)


def summarize(store: Store, run_id: str) -> None:
    """Give the stored description of an ended run its ``latest`` and ``sparkline``, which only its points tell."""
    try:
        info = store.run(run_id)
    except NotFound:  # deleted in the meantime
        return
    record = RunRecord.replay(info, store.events(run_id))
    info.latest, info.sparkline = record.info.latest, record.info.sparkline
    store.put_run(info)
