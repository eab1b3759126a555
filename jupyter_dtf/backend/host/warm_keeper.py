"""Keeps a host connected to its machine's warm process: watches it, kills it if it hangs, and restarts it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import Unavailable
from ..machine import paths
from ..machine.oom import OomWatch
from ..machine.processes import Handle, how_it_ended, stat_of
from .warm_client import LOG, PID, WarmClient, start_warm

logger = logging.getLogger(__name__)

RETRY_S = 0.5
"""The pause in seconds before the next attempt to start the warm process after a possibly temporary failure. It doubles
with each attempt.
"""
MOST_RETRY_S = 30.0
_MAY_PASS = (OSError, MemoryError, RuntimeError)
"""Errors that may be temporary, such as a full disk, or too many processes or open files. RuntimeError: a thread cannot
be started.
"""
_END_S = 5.0
_LOOK_S = 0.25


class WarmKeeper:
    """Supervises the warm process for one host.

    Args:
        directory: The cluster's directory on this machine.
        shared: The tasks' shared directory in memory.
        oom: Determines whether the kernel killed the warm process for lack of memory.
        on_message: Called with each of the warm process's messages about tasks.
        on_lost: Called with the reason when the warm process is gone, and every task with it.
        on_change: Called when the warm process becomes ready or fails, or ``is_silent`` changes.
    """

    def __init__(
        self,
        directory: Path,
        shared: Path,
        oom: OomWatch,
        *,
        on_message: Callable[[dict[str, Any]], None],
        on_lost: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        self.failure = ""
        """Why the warm process could not be started, so that no task can be forked. Empty during the next attempt."""
        self.unguarded = ""
        """Why the ports of TensorFlow servers cannot be guarded on this machine; empty if they can."""
        self._directory = directory
        self._shared = shared
        self._oom = oom
        self._on_message = on_message
        self._on_lost = on_lost
        self._on_change = on_change
        self._client: WarmClient | None = None
        self._process: Handle | None = None
        self._lifeline: Any = None
        self._starting: asyncio.Future[Any] | None = None
        self._is_closed = False
        self._ready = asyncio.Event()
        self._ended_here = False
        self._was_silent = False
        self._may_pass = False  # whether another attempt follows the failure
        self._retry_s = RETRY_S
        self._tries = 0
        self._needed = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()

    # -- lifetime -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._in_background(self._connect())
        self._in_background(self._look())

    async def close(self) -> None:
        """Disconnect. The warm process kills the processes that it has forked for this host. It exits when no host uses
        it.
        """
        self._is_closed = True
        for task in list(self._background):
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        if self._starting is not None:  # its thread keeps running
            with contextlib.suppress(Exception):
                await self._take_over(await self._starting)
        if self._client is not None:
            await self._client.close()
        if self._process is not None:
            self._process.close()
        self._let_go()

    def _let_go(self) -> None:
        if self._lifeline is not None:
            self._lifeline.stdin.close()
            self._lifeline.poll()

    async def _take_over(self, started: Any) -> None:
        """Hold the lifeline of a newly started process, if any, instead of that of the previous, dead process."""
        self._starting = None
        before = self._lifeline
        if started is not None:
            self._lifeline = started
            if before is not None:
                before.stdin.close()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    await asyncio.to_thread(before.wait, _END_S)

    @property
    def is_ready(self) -> bool:
        """Whether tasks can be forked immediately. False after ``end`` until the old process is known to be gone."""
        is_there = self._client is not None and not self._ended_here
        return is_there and self._ready.is_set() and not self.failure and not self.is_silent

    @property
    def is_silent(self) -> bool:
        """Whether the warm process is running but not responding."""
        if self._client is not None and self._client.is_silent:
            return True
        stat = stat_of(self._process.pid) if self._process is not None else None
        return stat is not None and stat.is_stopped

    @property
    def name(self) -> str:
        return f"the warm process on {paths.machine_name()}"

    @property
    def warnings(self) -> list[str]:
        """Warnings to show to the user."""
        if not self.is_silent:
            return []
        return [
            f"{_sentence(self.name)} does not respond, so no task can start there. When the runs there are stopped, "
            "it is killed, and another one is started"
        ]

    def end(self) -> None:
        """Kill the warm process, even if it is stopped. A new one is started immediately."""
        self._ended_here = True
        if self._process is not None:
            self._process.kill()

    async def usable(self, may_end: Callable[[], bool]) -> None:
        """Wait until tasks can be forked. If the warm process failed to start for a temporary reason, retry now.

        Args:
            may_end: Returns whether a warm process that does not respond may be killed.

        Raises:
            Unavailable: If the warm process cannot be started, or does not respond and must not be killed.
        """
        tries = None
        while not self.is_ready:
            if self.failure and (not self._may_pass or (tries is not None and self._tries > tries)):
                raise Unavailable(self.failure)
            if self.failure and tries is None:
                tries = self._tries
                self._needed.set()
            if self.is_silent and not may_end():
                raise Unavailable(
                    f"{_sentence(self.name)} does not respond. When the runs on this machine are stopped, "
                    "another one is started"
                )
            if self.is_silent:
                self.end()
            if self._ready.is_set():
                await asyncio.sleep(_LOOK_S)
            else:
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._ready.wait(), _LOOK_S)

    # -- requests -----------------------------------------------------------------------------------------------

    def prepare(self, threads: int, count: int) -> None:
        if self._client is not None:
            self._client.prepare(threads, count)

    def fork(self, task_id: str, spec: Path, fds: list[int], spare: int) -> None:
        """Request a new task, as in `WarmClient.fork`. Raises Unavailable if the warm process is gone or rejects the
        request.
        """
        if self._client is None:
            raise Unavailable(f"{_sentence(self.name)} is gone")
        try:
            self._client.fork(task_id, spec, fds, spare)
        except OSError as error:
            raise Unavailable(f"{_sentence(self.name)} does not accept the task: {error}") from None

    def kill(self, task_id: str, number: int) -> None:
        if self._client is not None:
            self._client.kill(task_id, number)

    # -- inside -------------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        """Connect to this machine's warm process, starting it if necessary. Retry while failures may be temporary."""
        is_over = False
        while not is_over:
            is_over = True
            try:
                start = asyncio.to_thread(start_warm, self._directory, self._shared)
                self._starting = asyncio.ensure_future(start)
                await self._take_over(await asyncio.shield(self._starting))
                self._client = await WarmClient.connect(self._directory, self._on_word, self._on_gone)
                with contextlib.suppress(OSError, ValueError):
                    self._process = Handle(int((self._directory / PID).read_text()))
            except Exception as error:
                is_over = not isinstance(error, _MAY_PASS)
                self._failed(f"{_sentence(self.name)} could not be started: {error}", may_pass=not is_over)
            self._on_change()
            if not is_over:
                await self._pause()

    async def _pause(self) -> None:
        """Wait before another attempt: longer each time, but at most until a run needs the warm process."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._needed.wait(), self._retry_s)
        self._retry_s = min(2 * self._retry_s, MOST_RETRY_S)
        self._tries += 1
        self.failure = ""
        self._ready.clear()

    def _on_word(self, message: dict[str, Any]) -> None:
        match message["op"]:
            case "ready":
                self.failure = ""
                self._retry_s = RETRY_S
                self.unguarded = message["unguarded"]
                if self._client is not None:
                    self._client.watch()
                self._ready.set()
                self._on_change()
            case "failed":
                may_pass = bool(message.get("may_pass"))
                self._failed(
                    f"TensorFlow could not be imported on this machine: {message['message']}", may_pass=may_pass
                )
                self._on_change()
                if may_pass:
                    self._in_background(self._replace())
            case _:
                self._on_message(message)

    async def _replace(self) -> None:
        await self._pause()
        self.end()

    def _failed(self, why: str, *, may_pass: bool = False) -> None:
        self.failure = why
        self._may_pass = may_pass
        self._needed.clear()
        self._ready.set()
        logger.error("%s (its output: %s)", why, self._directory / LOG)

    def _on_gone(self) -> None:
        self._client = None
        if self._is_closed:
            return
        was_ready = self._ready.is_set()
        if was_ready:
            self._ready.clear()
        self._in_background(self._start_again(was_ready))

    async def _start_again(self, was_ready: bool) -> None:
        """Report that the warm process is gone, and with it all tasks (the kernel kills them), and restart it."""
        process, self._process = self._process, None
        how, on_purpose, self._ended_here = "is gone", self._ended_here, False
        status: int | None = None
        if process is not None:
            # While it dies, its descriptors are closed one by one: its socket might still accept a connection.
            await asyncio.to_thread(process.wait, _END_S)
            stat = stat_of(process.pid)
            status = stat.status if stat is not None and stat.has_ended else None
            how = self._how(process.pid, status, on_purpose)
            process.close()
        try:
            self._on_lost(f"{self.name} {how}")
        finally:
            if was_ready or on_purpose:
                await self._connect()
            else:
                # An exit is caused by an imported module; a signal, or an end that was not observed, may have another
                # cause.
                may_pass = status is None or os.WIFSIGNALED(status)
                self._failed(f"{_sentence(self.name)} {how} while it imported TensorFlow", may_pass=may_pass)
                self._on_change()
                if may_pass:
                    await self._pause()
                    await self._connect()

    def _how(self, pid: int, status: int | None, on_purpose: bool) -> str:
        if on_purpose:
            return "did not respond and was killed"
        how = how_it_ended(status) if status is not None else "has ended"
        memory = self._oom.explain(pid) if "SIGKILL" in how or how == "has ended" else ""
        return f"was killed {memory}" if memory else how

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S * 2)
            if self.is_silent != self._was_silent:
                self._was_silent = not self._was_silent
                if self._was_silent:
                    logger.warning("%s does not respond", self.name)
                self._on_change()

    def _in_background(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._background.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("The warm process could not be supervised", exc_info=error)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
