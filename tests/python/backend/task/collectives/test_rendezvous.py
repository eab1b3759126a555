"""Tests of the barrier of a machine's tasks if one of them leaves between two checks of a waiting task."""

from pathlib import Path

import pytest

from jupyter_dtf.backend.task.collectives import rendezvous
from jupyter_dtf.backend.task.collectives.rendezvous import Meeting


@pytest.fixture
def pair(tmp_path: Path) -> list[Meeting]:
    tasks = ["worker:0", "worker:1"]
    return [
        Meeting(tmp_path / "meeting", rank, tasks, stall_s=60.0, stalled=lambda missing, what: None) for rank in (0, 1)
    ]


def leave_at_look(monkeypatch: pytest.MonkeyPatch, other: Meeting, *, comes: bool) -> None:
    """Make the other task leave as failed while the first checks whether it is alive, after arriving if ``comes``."""

    def alive(pid: int) -> bool:
        if comes:
            other.meet()
        other.leave(failed=True)
        return True

    monkeypatch.setattr(rendezvous, "_alive", alive)


def test_one_that_comes_and_then_fails_has_not_interrupted(
    pair: list[Meeting], monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_at_look(monkeypatch, pair[1], comes=True)
    assert pair[0].meet() == ()
    assert not pair[0].interrupted


def test_one_that_fails_before_it_comes_has_interrupted(pair: list[Meeting], monkeypatch: pytest.MonkeyPatch) -> None:
    leave_at_look(monkeypatch, pair[1], comes=False)
    with pytest.raises(RuntimeError, match="worker:1 has failed while"):
        pair[0].meet()
    assert pair[0].interrupted
