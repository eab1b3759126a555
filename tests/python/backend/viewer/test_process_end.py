from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from jupyter_dtf.backend.viewer.connections import Connection
from jupyter_dtf.backend.viewer.process_end import ProcessEnd
from jupyter_dtf.schema.api import ClusterState


def connection(pid: int) -> Connection:
    return Connection(
        name="c", kind="local", state=ClusterState.RUNNING, pid=pid, pid_created=0.0, created=0.0, jobs={}
    )


def waiting() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_the_end_is_told_once() -> None:
    async def main() -> None:
        told = asyncio.Event()
        end = ProcessEnd()
        with waiting() as process:
            end.watch(connection(process.pid), told.set)
            assert end.is_watched
            process.kill()
            await told.wait()
        assert not end.is_watched

    asyncio.run(main())


def test_what_is_forgotten_is_not_told_of() -> None:
    async def main() -> None:
        told: list[str] = []
        ended = asyncio.Event()
        first, second = ProcessEnd(), ProcessEnd()
        with waiting() as process:
            first.watch(connection(process.pid), lambda: told.append("first"))
            second.watch(connection(process.pid), ended.set)
            first.forget()
            process.kill()
            await ended.wait()
        assert told == []

    asyncio.run(main())


def test_neither_this_process_nor_one_that_is_gone_is_watched() -> None:
    async def main() -> None:
        end = ProcessEnd()
        end.watch(connection(os.getpid()), lambda: None)
        assert not end.is_watched
        with waiting() as process:
            process.kill()
        end.watch(connection(process.pid), lambda: None)
        assert not end.is_watched

    asyncio.run(main())
