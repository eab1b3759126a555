"""Work that goes on beside an event loop's own: tasks that are known, and threads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Background:
    """Tasks of one owner, which are ended with it. What they raise is logged."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    async def end(self) -> None:
        """Cancel what goes on, and wait for its end."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("Something in the background failed", exc_info=error)


async def off_loop(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread; here, where the interpreter is ending and has closed its thread pool already."""
    try:
        running = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:  # the pool takes nothing any more; what ``work`` itself raises comes below
        return work()
    return await running
