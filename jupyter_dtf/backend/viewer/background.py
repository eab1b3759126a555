"""Background work of an event loop: tasks that are tracked, and functions that run in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Background:
    """The background tasks of one owner, which cancels them with ``end``. Their exceptions are logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def end(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("A background task failed", exc_info=error)


async def off_loop(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread, or directly if the interpreter is shutting down and its thread pool is closed."""
    try:
        running = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:  # the pool is closed; exceptions of ``work`` itself are raised below
        return work()
    return await running
