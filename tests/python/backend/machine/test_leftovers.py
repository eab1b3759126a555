"""All leftovers of crashes are found, and nothing of a live cluster is taken for one."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from pathlib import Path

import pytest

from jupyter_dtf.backend.machine import cluster_processes, leftovers, paths


@pytest.fixture
def parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    found = [tmp_path / "machine", tmp_path / "shared"]
    monkeypatch.setattr(paths, "family_parents", lambda: found)
    return found


@pytest.fixture
def token() -> str:
    return secrets.token_hex(6)


def made(directory: Path, *, age_s: float = 3600) -> Path:
    directory.mkdir(parents=True)
    (directory / "file").touch()
    os.utime(directory, (time.time() - age_s,) * 2)
    return directory


def of(token: str) -> list[leftovers.LeftOver]:
    return [left for left in leftovers.find() if left.token == token]


def test_directories_of_which_nobody_lives(parents: list[Path], token: str) -> None:
    there = [made(parent / token) for parent in parents]
    claim = cluster_processes.claim(there[0])
    assert of(token) == []
    os.close(claim)
    (left,) = of(token)
    assert left.directories == [str(path) for path in there]
    assert str(left) == f"{there[0]}, {there[1]}, of a dead cluster"
    assert leftovers.find({token}) == []
    assert leftovers.remove([left]) == []
    assert not any(path.exists() for path in there)


def test_what_is_being_made_and_what_is_not_ours_is_left_alone(parents: list[Path], token: str) -> None:
    made(parents[0] / token, age_s=0)
    made(parents[0] / "somebody-else")
    assert leftovers.find() == []


def test_processes_of_which_no_cluster_lives(
    parents: list[Path], token: str, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert of(token) == []  # it may belong to a cluster that has just started
    monkeypatch.setattr(leftovers, "_YOUNG_S", -1.0)
    (left,) = of(token)
    assert (left.processes, left.directories) == ([sleeper.pid], [])
    assert leftovers.remove([left]) == []
    assert sleeper.wait() < 0
