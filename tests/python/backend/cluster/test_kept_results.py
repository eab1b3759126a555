"""Results of ended runs: kept in private files up to a total size; if they are gone, the error states the reason."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from jupyter_dtf.backend.cluster import kept_results
from jupyter_dtf.backend.cluster.kept_results import LEAST_BYTES, KeptResults
from jupyter_dtf.backend.viewer.background import Background
from jupyter_dtf.errors import NotFound
from jupyter_dtf.schema.result_files import RESULTS, remove_but_held

from ...patience import left_s


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), left_s()))


class Writing(Background):
    """Background work that a test can wait for."""

    async def done(self) -> None:
        await asyncio.gather(*self._tasks)


def test_results_are_in_a_private_file_and_read_in_parts(tmp_path: Path) -> None:
    async def test() -> None:
        writing = Writing()
        kept = KeptResults("c", lambda: tmp_path / "results", writing)
        results = {"worker:0": b"zero", "worker:1": b"", "worker:2": bytes(range(100))}
        kept.put("r", results)
        kept.put("none", {})
        for _ in range(2):  # before they are written, and after
            for task, data in results.items():
                assert await kept.read("r", task) == (data, len(data))
            assert await kept.read("r", "worker:2", 90, 8) == (bytes(range(90, 98)), 100)
            assert await kept.read("r", "worker:2", 98, 8) == (bytes([98, 99]), 100)
            await writing.done()
        (file,) = (tmp_path / "results").iterdir()
        assert file.read_bytes() == b"".join(results.values())
        assert [stat.S_IMODE(path.stat().st_mode) for path in (file, file.parent)] == [0o600, 0o700]
        assert kept._by_run["r"].held is None
        with pytest.raises(NotFound, match="worker:3 of r has no result, because it has not succeeded"):
            await kept.read("r", "worker:3")
        with pytest.raises(
            NotFound, match="no results of a run with the id 'none'; if an earlier cluster of that name"
        ):
            await kept.read("none", "worker:0")
        file.unlink()
        with pytest.raises(NotFound, match="were in a file of its cluster c, which can no longer be read: .*No such"):
            await kept.read("r", "worker:0")

    run(test)


def test_the_end_of_the_last_host_removes_no_results(tmp_path: Path) -> None:
    """When no host is left, the warm process removes the cluster's directory, but the controller may still run."""

    def there() -> list[str]:
        return sorted(os.listdir(tmp_path)) if os.path.isdir(tmp_path) else []

    async def test() -> None:
        writing = Writing()
        kept = KeptResults("c", lambda: tmp_path / RESULTS, writing)
        for name in ("r", "s"):
            kept.put(name, {"worker:0": b"zero"})
            await writing.done()
            (tmp_path / "run").mkdir()
            (tmp_path / ".living").touch()
            (tmp_path / "warm.log").touch()
            remove_but_held(tmp_path)
            assert there() == [".living", RESULTS]
            assert await kept.read(name, "worker:0") == (b"zero", 4)
            shutil.rmtree(tmp_path)  # removed by something else: the next results are locked again
        kept.put("t", {"worker:0": b"zero"})
        await writing.done()
        kept.close()
        remove_but_held(tmp_path)
        assert there() == []

    run(test)


def test_older_results_make_room_for_newer_ones_and_the_newest_are_always_kept(tmp_path: Path) -> None:
    async def test() -> None:
        writing = Writing()
        kept = KeptResults("c", lambda: tmp_path, writing, most_bytes=4 * LEAST_BYTES)

        async def there() -> list[str]:
            await writing.done()
            assert sorted(os.listdir(tmp_path)) == sorted(kept._by_run)
            return list(kept._by_run)

        for name in "abcde":  # small results also count
            kept.put(name, {"worker:0": b"x"})
        assert await there() == ["b", "c", "d", "e"]
        kept.put("two", {"worker:0": bytes(LEAST_BYTES), "worker:1": bytes(LEAST_BYTES)})
        assert await there() == ["d", "e", "two"]
        kept.put("large", {"worker:0": bytes(9 * LEAST_BYTES)})
        assert await there() == ["large"]
        assert await kept.read("large", "worker:0", 0, 1) == (b"\0", 9 * LEAST_BYTES)
        with pytest.raises(NotFound, match=r"of the run a are no longer kept: the cluster c keeps .* into 256 KiB"):
            await kept.read("a", "worker:0")

    run(test)


def test_a_disk_that_takes_nothing_costs_no_newest_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kept_results, "MOST_HELD_BYTES", 10)

    async def test() -> None:
        writing = Writing()
        directory = tmp_path / "results"
        kept = KeptResults("c", lambda: directory, writing)
        kept.put("before", {"worker:0": b"1234"})
        await writing.done()
        directory.rename(tmp_path / "aside")
        directory.write_bytes(b"")  # no directory can be created there
        for name in ("a", "b", "c"):
            kept.put(name, {"worker:0": b"1234"})
            await writing.done()
        assert list(kept._by_run) == ["before", "b", "c"]  # of the results in memory, the oldest was dropped
        assert await kept.read("c", "worker:0") == (b"1234", 4)
        assert "The results of the run c stay in memory: [Errno" in caplog.text
        kept.put("large", {"worker:0": bytes(20)})
        await writing.done()
        assert list(kept._by_run) == ["before", "large"]
        directory.unlink()
        kept.put("after", {"worker:0": b"5678"})
        await writing.done()
        assert (kept._by_run["after"].held, (directory / "after").read_bytes()) == (None, b"5678")
        assert await kept.read("large", "worker:0", 0, 1) == (b"\0", 20)

    run(test)


def test_on_a_full_disk_older_results_make_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = kept_results._write

    def on_a_small_disk(path: Path, parts: list[bytes]) -> None:
        if sum(file.stat().st_size for file in tmp_path.iterdir()) + sum(map(len, parts)) > 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, parts)

    monkeypatch.setattr(kept_results, "_write", on_a_small_disk)

    async def test() -> None:
        writing = Writing()
        kept = KeptResults("c", lambda: tmp_path, writing)
        for name in "abcd":
            kept.put(name, {"worker:0": b"1234"})
        await writing.done()
        assert [(name, each.held) for name, each in kept._by_run.items()] == [("c", None), ("d", None)]
        assert await kept.read("d", "worker:0") == (b"1234", 4)

    run(test)
