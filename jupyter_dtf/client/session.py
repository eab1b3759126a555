"""A process's single connection to all clusters: an event loop in a thread, with the fleet and the hub of runs."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import Unavailable

if TYPE_CHECKING:
    from ..backend.records.hub import Hub
    from ..backend.viewer.fleet import Fleet
    from ..schema.cluster_request import ClusterRequest

T = TypeVar("T")

LEAST_S = 0.05
"""The minimum time limit of a request, in seconds."""
END_S = 5.0
"""The time limit for disconnecting from the clusters, and then for the end of the thread, in seconds."""
_LET_GO_S = 1.0
"""The time limit for the requests that are cancelled when the session is closed, in seconds."""


class Session:
    """Runs the fleet in a daemon thread. Its methods may be called from any other thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._made: asyncio.Future[None] = self._loop.create_future()
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._lock = threading.Lock()
        self._requests: set[Future[Any]] = set()
        self._is_over = False  # from then on, no request is added
        self._thread = threading.Thread(target=self._live, name="jupyter_dtf", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _live(self) -> None:
        asyncio.set_event_loop(self._loop)
        starting = self._loop.create_task(self._start())
        self._loop.run_forever()
        with self._lock:
            self._is_over = True
        starting.cancel()
        self._loop.run_until_complete(self._let_go())
        self._loop.close()

    async def _let_go(self) -> None:
        """End the requests that have not been answered, because other threads may be waiting for them."""
        await asyncio.sleep(0)  # so that each request has begun
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_LET_GO_S)
        for request in list(self._requests):  # those that do not let themselves be cancelled
            request.cancel()

    async def _start(self) -> None:
        try:
            from ..backend.machine import paths
            from ..backend.records.hub import Hub
            from ..backend.records.store import Store
            from ..backend.viewer.fleet import Fleet

            try:
                store: Store | None = Store(paths.store_path())
            except Unavailable as error:  # live runs can be shown without the store
                logging.getLogger(__name__).warning("Past runs cannot be shown: %s", error)
                store = None
            self._hub = Hub(store)
            self._fleet = Fleet(self._hub)
            self._made.set_result(None)
            await self._fleet.start()
        except BaseException as error:
            for step in (self._made, self._started):
                if not step.done():
                    step.set_exception(error)
                    step.exception()  # mark as retrieved, even if nobody waits for this step
        else:
            self._started.set_result(None)

    async def _entered(self) -> Fleet:
        await asyncio.shield(self._started)
        return self._fleet

    def _submit(self, begin: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run ``begin()`` on the loop. Raises Unavailable once the session has been closed, and so does the future."""

        async def answered() -> T:
            try:
                return await begin()
            except asyncio.CancelledError:
                if self._is_over:
                    raise _closed() from None
                raise

        with self._lock:
            if self._is_over:
                raise _closed()
            request = asyncio.run_coroutine_threadsafe(answered(), self._loop)
            self._requests.add(request)
        request.add_done_callback(self._requests.discard)
        return request

    def call(self, work: Callable[[Fleet], Coroutine[Any, Any, T]], timeout_s: float | None = None) -> T:
        """Run ``work(fleet)`` on the loop and wait for its result. Raises TimeoutError after ``timeout_s`` seconds.

        The limit is at least ``LEAST_S``, so that an available result is returned even with a limit of 0.
        """
        limit_s = None if timeout_s is None else max(timeout_s, LEAST_S)

        async def worked() -> T:
            return await work(await self._entered())

        async def run() -> T:
            return await asyncio.wait_for(worked(), limit_s)

        future = self._submit(run)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start_cluster(self, request: ClusterRequest) -> str:
        """Start a cluster and return its name immediately, even if existing clusters have not responded yet."""

        async def start() -> str:
            await asyncio.shield(self._made)
            return (await self._fleet.start_cluster(request)).name

        future = self._submit(start)
        try:
            return future.result()
        except BaseException:
            future.add_done_callback(self._end_again)  # it may have started despite the interrupt
            raise

    def _end_again(self, started: Future[str]) -> None:
        if not started.cancelled() and started.exception() is None:
            self.begin(lambda fleet: fleet.stop_cluster(started.result()))

    def begin(self, work: Callable[[Fleet], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run ``work(fleet)`` on the loop. Return a future that can be waited for or cancelled."""

        async def run() -> T:
            return await work(await self._entered())

        return self._submit(run)

    def do(self, work: Callable[[Fleet], T]) -> T:
        """Run the synchronous function ``work(fleet)`` on the loop and wait for its result."""

        async def run(fleet: Fleet) -> T:
            return work(fleet)

        return self.call(run)

    @property
    def hub(self) -> Hub:
        """The hub of runs, which may be read from any thread."""
        self.do(lambda fleet: None)
        return self._hub

    @property
    def is_closed(self) -> bool:
        """Whether the session has been closed; any further request to it fails."""
        return self._is_over

    def close(self) -> None:
        """End the thread. The clusters are not affected. Requests that have not been answered raise Unavailable."""
        global _session
        atexit.unregister(self.close)
        with _lock:  # session() reads it twice
            if _session is self:
                _session = None
        if self._thread.is_alive():
            with contextlib.suppress(Exception):  # the loop never started or does not stop; the thread is a daemon
                self.call(lambda fleet: fleet.stop(), END_S)
            with contextlib.suppress(RuntimeError):  # another thread has just closed the session
                self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(END_S)


def _closed() -> Unavailable:
    return Unavailable("The session was closed; get a new handle with dtf.connect(...)")


_session: Session | None = None
_lock = threading.Lock()


def session() -> Session:
    """Return this process's session, which is started on first use."""
    global _session
    with _lock:
        if _session is None:
            _session = Session()
        return _session
