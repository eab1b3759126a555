"""Tests of a real warm process: invalid messages, probes, and the files that it removes."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from pathlib import Path
from typing import Any

from jupyter_dtf.schema.result_files import RESULTS, hold

from .test_spares import Warm


def own_pid(_ctx: Any) -> int:
    return os.getpid()


def test_bad_words_end_nobodys_tasks(tmp_path: Path) -> None:
    async def story() -> None:
        async with Warm(tmp_path / secrets.token_hex(6)).running() as warm:
            say = warm.client._socket.send
            for nonsense in (b"nonsense", b'{"op": "fork"}', b'{"op": "kill"}', b"{}", b'"op"', b"x" * 100_000):
                say(nonsense)
            warm.client.fork("nothing", tmp_path / "spec.json", [])
            refused = await warm.until("not_forked")
            assert (refused["id"], refused["message"]) == (
                "nothing",
                "ValueError: A task must be sent 4 file descriptors, got 0",
            )
            say(b'{"op": "ping"}')
            await warm.until("pong")
            pid, told = await warm.run(own_pid, threads=1, spare=0)
            assert pid == told

            # A task whose run is given up before it begins ends quietly.
            null = os.open(os.devnull, os.O_RDWR)
            warm.client.fork("late", tmp_path / "removed" / "spec.json", [null] * 4)
            os.close(null)
            await warm.until("forked")
            assert os.waitstatus_to_exitcode((await warm.until("exited"))["status"]) == os.EX_TEMPFAIL
            assert "spec.json" not in (warm.directory / "warm.log").read_text()

    asyncio.run(story())


def test_who_only_looks_whether_it_is_there_loses_nothing(tmp_path: Path) -> None:
    """A host probes the process before it connects, and its first run's directory may exist before that is noticed."""

    async def story() -> None:
        async with Warm(tmp_path / secrets.token_hex(6)).running() as warm:
            laid_out = warm.directory / f"20260101-000000-abcdef-{os.getpid()}"
            laid_out.mkdir()
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
                probe.connect(str(warm.directory / "warm.sock"))
                assert probe.recv(65_536)  # it has been accepted
            for _ in range(2):  # the last answer comes after the end of the probe has been noticed
                warm.client._socket.send(b'{"op": "ping"}')
                await warm.until("pong")
            assert laid_out.is_dir()

    asyncio.run(story())


def test_it_removes_all_but_results_that_a_controller_still_holds(tmp_path: Path) -> None:
    directory = tmp_path / secrets.token_hex(6)

    async def story() -> None:
        async with Warm(directory).running() as warm:
            results = warm.directory / RESULTS
            results.mkdir()
            (results / "run").write_bytes(b"kept")
            held.append(hold(results))

    held: list[int] = []
    asyncio.run(story())
    try:
        assert (directory / RESULTS / "run").read_bytes() == b"kept"
        assert not (directory / "warm.log").exists()
        assert not (directory / "shared").exists()
    finally:
        os.close(held[0])
