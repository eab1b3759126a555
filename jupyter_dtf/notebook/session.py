"""The one place of a process where its view of all clusters lives: an event loop in a thread, with fleet and hub."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from ..backend.fleet import Fleet
    from ..backend.metrics.hub import Hub

T = TypeVar("T")


class Session:
    """Runs the fleet in a daemon thread. Its methods may be called from any other thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._thread = threading.Thread(target=self._live, name="jupyter_dtf", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._loop.run_forever()
        self._loop.close()

    async def _start(self) -> None:
        try:
            from ..backend import places
            from ..backend.fleet import Fleet
            from ..backend.metrics.hub import Hub
            from ..backend.metrics.store import Store

            self._hub = Hub(Store(places.store_path()))
            self._fleet = Fleet(self._hub)
            await self._fleet.start()
        except BaseException as error:
            self._started.set_exception(error)
        else:
            self._started.set_result(None)

    async def _entered(self) -> Fleet:
        await asyncio.shield(self._started)
        return self._fleet

    def call(self, work: Callable[[Fleet], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        """Run ``work(fleet)`` on the loop and wait for what it returns. Raises TimeoutError after ``timeout_s``."""

        async def run() -> T:
            return await asyncio.wait_for(work(await self._entered()), timeout_s)

        future = asyncio.run_coroutine_threadsafe(run(), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def do(self, work: Callable[[Fleet], T]) -> T:
        """Run the plain function ``work(fleet)`` on the loop and wait for what it returns."""

        async def run(fleet: Fleet) -> T:
            return work(fleet)

        return self.call(run)

    def post(self, work: Callable[[Fleet], object]) -> None:
        """Run the plain function ``work(fleet)`` on the loop, as soon as it can be; do not wait."""

        async def run() -> None:
            work(await self._entered())

        asyncio.run_coroutine_threadsafe(run(), self._loop)

    @property
    def hub(self) -> Hub:
        """The runs. May be read from any thread."""
        self.do(lambda fleet: None)
        return self._hub

    def close(self) -> None:
        """Leave every cluster as it is and end the thread."""
        global _session
        atexit.unregister(self.close)
        if _session is self:
            _session = None
        if self._thread.is_alive():
            with contextlib.suppress(Exception):  # it never started, or will not end: the thread is a daemon
                self.call(lambda fleet: fleet.stop(), 5)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)


_session: Session | None = None
_lock = threading.Lock()


def session() -> Session:
    """This process's session, started when first asked for."""
    global _session
    with _lock:
        if _session is None:
            _session = Session()
        return _session
