"""Tests of the spares of a real warm process: which tasks they become, and when they end."""

from __future__ import annotations

import asyncio
import os
import secrets
import selectors
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec
import psutil
import pytest

from jupyter_dtf.backend.host.warm_client import WarmClient, start_warm
from jupyter_dtf.backend.task.spares import PLAIN, REST_S, Spares
from jupyter_dtf.schema import payload
from jupyter_dtf.schema.launch import TaskSpec, read_outcome

from ...patience import left_s


class Warm:
    """A connection to a warm process that can wait for the process's messages."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pid = 0
        self._messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def until(self, op: str) -> dict[str, Any]:
        while True:
            message = await asyncio.wait_for(self._messages.get(), left_s())
            if message["op"] == op:
                return message

    async def prepare(self, threads: int, count: int) -> list[psutil.Process]:
        """Request rehearsed spares and wait for them. Returns the warm process's child processes."""
        self.client.prepare(threads, count)
        while (await self.until("prepared"))["count"] < count:
            pass
        return psutil.Process(self.pid).children()

    async def plain(self) -> set[int]:
        """Wait until all plain spares exist. Returns their pids."""
        while len(found := psutil.Process(self.pid).children()) < PLAIN:
            await asyncio.sleep(0.01)
        return {process.pid for process in found}

    async def run(self, function: Callable[..., Any], threads: int, spare: int) -> tuple[int, Any]:
        """Run ``function(ctx)`` as a task. Returns its pid and its result."""
        task_dir = self.directory / "task"
        task_dir.mkdir(exist_ok=True)
        (task_dir / "payload").write_bytes(payload.pack((function, (), {})))
        spec = TaskSpec(
            run_id="run",
            cluster="here",
            job_name="worker",
            task_index=0,
            cluster_spec={"worker": {0: "localhost:1"}},
            rank=0,
            size=1,
            local_rank=0,
            local_size=1,
            machines=["here"],
            threads=threads,
            run_dir=str(task_dir),
            stop_grace_s=1.0,
            payload=str(task_dir / "payload"),
            task_dir=str(task_dir),
        )
        (task_dir / "spec.json").write_bytes(msgspec.json.encode(spec))
        control_read, control_write = os.pipe()
        output = os.open(self.directory / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.client.fork("a task", task_dir / "spec.json", [output] * 3 + [control_read], spare)
        os.close(output)
        os.close(control_read)
        pid = (await self.until("forked"))["pid"]
        await self.until("exited")
        os.close(control_write)
        outcome = read_outcome(task_dir)
        assert outcome is not None and outcome.ok, outcome
        return pid, cloudpickle.loads(outcome.result)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Warm]:
        self.directory.mkdir()
        process = start_warm(self.directory, self.directory / "shared")
        assert process is not None and process.stdin is not None
        try:
            self.client = await WarmClient.connect(self.directory, self._messages.put_nowait, lambda: None)
            try:
                self.pid = (await self.until("ready"))["pid"]
                yield self
            finally:
                await self.client.close()
        finally:
            process.stdin.close()
            await asyncio.to_thread(process.wait)


def started_runtime(ctx: Any) -> bool:
    from tensorflow.python.eager import context

    return bool(context.context()._initialized)


def thread_pools(ctx: Any) -> tuple[int, int]:
    import tensorflow as tf

    threading = tf.config.threading
    return threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads()


def test_one_operation_more_than_threads_runs_at_once_because_it_may_wait(tmp_path: Path) -> None:
    async def story() -> None:
        async with Warm(tmp_path / secrets.token_hex(6)).running() as warm:
            assert (await warm.run(thread_pools, threads=1, spare=0))[1] == (1, 1)
            assert (await warm.run(thread_pools, threads=2, spare=0))[1] == (2, 3)

    asyncio.run(story())


def test_a_spare_becomes_one_task_of_its_number_of_threads(tmp_path: Path) -> None:
    async def story() -> None:
        async with Warm(tmp_path / secrets.token_hex(6)).running() as warm:
            spares = {process.pid for process in await warm.prepare(threads=1, count=2)}
            assert len(spares) == 2
            assert (await warm.run(started_runtime, threads=2, spare=2))[0] not in spares
            pid, started = await warm.run(started_runtime, threads=1, spare=0)
            assert pid not in spares
            assert not started
            pid, started = await warm.run(started_runtime, threads=1, spare=1)
            assert pid in spares
            assert started
            assert (await warm.until("prepared"))["count"] == 2  # another took its place
            others = {process.pid for process in psutil.Process(warm.pid).children()}
            assert len(others) == 2 + PLAIN
            assert pid not in others

    asyncio.run(story())


def test_after_a_task_the_next_one_need_not_be_forked(tmp_path: Path) -> None:
    async def story() -> None:
        async with Warm(tmp_path / secrets.token_hex(6)).running() as warm:
            assert psutil.Process(warm.pid).children() == []
            await warm.run(started_runtime, threads=1, spare=0)
            plain = await warm.plain()
            pid, started = await warm.run(started_runtime, threads=2, spare=0)
            assert pid in plain
            assert not started
            (left,) = plain - {pid}
            again = await warm.plain()
            assert left in again
            dying = [psutil.Process(each) for each in again]
            for process in dying:
                process.kill()
            psutil.wait_procs(dying, timeout=left_s())
            pid, _ = await warm.run(started_runtime, threads=1, spare=1)  # it works without spares
            assert pid not in again
            assert not await warm.plain() & again

    asyncio.run(story())


def test_spares_that_are_not_wanted_any_more_end(tmp_path: Path) -> None:
    async def story() -> None:
        async with Warm(tmp_path / secrets.token_hex(6)).running() as warm:
            old = await warm.prepare(threads=1, count=1)
            (new,) = [process for process in await warm.prepare(threads=2, count=1) if process not in old]
            psutil.wait_procs(old, timeout=left_s())
            assert psutil.Process(warm.pid).children() == [new]  # no task has run yet, so there is no plain one
            new.kill()
            psutil.wait_procs([new], timeout=left_s())
            _, started = await warm.run(started_runtime, threads=2, spare=2)  # it works without spares
            assert not started

    asyncio.run(story())


def test_a_spare_is_begun_only_when_nothing_was_asked_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    begun: list[int] = []

    def fork(child: Callable[[], int]) -> int:
        begun.append(1)
        return 1

    with selectors.DefaultSelector() as selector:
        made = Spares(
            selector,
            fork,
            become=lambda path, fds: 0,
            kill=begun.remove,
            on_ready=begun.append,
        )
        assert made.due_in_s(is_idle=True) is None  # no spare is wanted
        made.want(threads=1, count=1)
        made.rest()
        assert made.due_in_s(is_idle=True) == REST_S
        now += REST_S
        assert made.due_in_s(is_idle=True) == 0
        made.rest()  # a task has come, and gone
        assert made.due_in_s(is_idle=True) == REST_S
        made.begin()
        assert made.due_in_s(is_idle=True) is None  # it is rehearsing
        assert made.pids == begun == [1]
        made.on_exit(1)
