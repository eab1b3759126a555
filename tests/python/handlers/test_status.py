from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from jupyter_dtf import __version__
from jupyter_dtf.handlers.services import Services

from .conftest import Api
from .fleet import MemoryFleet


async def test_versions_are_told_without_a_fleet(services: Services, api: Api) -> None:
    import distributed

    status = await api("GET", "status")
    assert status["version"] == __version__
    assert status["dask"] == distributed.__version__
    assert status["tensorflow"].count(".") == 2
    assert status["notes"] == []


async def test_a_damaged_store_is_told_and_not_fatal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_fleet: None, services: Services, api: Api
) -> None:
    monkeypatch.setenv("JUPYTER_DTF_DATA_DIR", str(tmp_path))
    (tmp_path / "runs.sqlite").write_bytes(b"SQLite format 3\0 and nothing else" * 100)
    assert await api("GET", "runs") == []
    (note,) = (await api("GET", "status"))["notes"]
    assert note.startswith("The store of past runs was damaged. It was moved to ")


async def test_a_store_of_a_newer_version_leaves_live_runs_to_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory_fleet: None, services: Services, api: Api
) -> None:
    monkeypatch.setenv("JUPYTER_DTF_DATA_DIR", str(tmp_path))
    db = sqlite3.connect(tmp_path / "runs.sqlite")
    db.execute("PRAGMA user_version = 999")
    db.close()
    assert await api("GET", "runs") == []
    (note,) = (await api("GET", "status"))["notes"]
    assert "of schema 999" in note


async def test_the_fleet_is_left_when_the_server_stops(fleet: MemoryFleet, services: Services) -> None:
    assert fleet.is_running
    store = fleet.hub.store
    assert store is not None
    await services.stop()
    assert not fleet.is_running
    with pytest.raises(Exception, match="closed"):
        store.runs()
    await services.stop()


async def test_a_fleet_that_did_not_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, memory_fleet: None, services: Services, api: Api
) -> None:
    with monkeypatch.context() as patch:

        async def fail(fleet: MemoryFleet) -> None:
            raise OSError("no inotify watches are left")

        patch.setattr(MemoryFleet, "start", fail)
        error = await api.refused(503, "GET", "clusters")
        assert error["message"] == "Clusters cannot be watched on this machine: no inotify watches are left"
    assert await api("GET", "clusters") == []
