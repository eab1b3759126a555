"""The part of a run on one host: what happens if it is cleaned up while its program arrives."""

from __future__ import annotations

from pathlib import Path

import pytest

from jupyter_dtf.backend.host import host_run
from jupyter_dtf.backend.host.host_run import HostRun
from jupyter_dtf.backend.machine.shared_directory import SharedDirectory
from jupyter_dtf.errors import Unavailable


@pytest.fixture
def run(tmp_path: Path) -> HostRun:
    (tmp_path / "shared").mkdir()
    return HostRun(tmp_path / "shared-1", tmp_path / "shared")


def test_a_program_that_arrives_late_leaves_nothing_behind(run: HostRun, tmp_path: Path) -> None:
    run.clear_up()
    with pytest.raises(Unavailable, match="abandoned"):
        run.take(0, b"program")
    assert not list(tmp_path.iterdir())


def test_a_program_that_arrives_while_the_run_is_cleaned_up_leaves_nothing_behind(
    run: HostRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cleaned_up(parent: Path) -> SharedDirectory:
        run.clear_up()  # as the event loop may, while a thread stores the program
        (tmp_path / "shared").mkdir()  # not removed if another thread creates the run's directory at this moment
        return SharedDirectory(parent)

    monkeypatch.setattr(host_run, "SharedDirectory", cleaned_up)
    with pytest.raises(Unavailable, match="abandoned"):
        run.take(0, b"program")
    assert not list(tmp_path.iterdir())
