"""Tests of writing checkpoints in the background: which are kept, and what is reported when writing fails."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.checkpoint import files
from jupyter_dtf.backend.task.checkpoint.writer import NICENESS, Writer
from jupyter_dtf.schema.checkpoint import FORMAT, Checkpoint, CheckpointInfo, Manifest


class Written:
    """A writer, with its reports and warnings."""

    def __init__(self, directory: Path, policy: Checkpoint) -> None:
        self.told: list[tuple[int, list[int]]] = []
        self.warned: list[tuple[str, str]] = []
        self.writer = Writer(directory, policy, self._tell, lambda *words: self.warned.append(words))

    def _tell(self, info: CheckpointInfo, removed: list[int]) -> None:
        self.told.append((info.step, removed))

    def write(self, step: int, metric: float | None = None, size: int = 3, last: bool = False) -> None:
        manifest = Manifest(format=FORMAT, kind="program", step=step, metric=metric)
        self.writer.write(manifest, {"a": np.full(size, step)}, files.pickled(step), last=last)


def test_the_newest_and_the_best_are_kept_and_told_of(tmp_path: Path) -> None:
    written = Written(tmp_path, Checkpoint(keep=2, best="val_loss"))
    for step, loss in ((1, 0.9), (2, 0.1), (3, 0.5), (4, None), (5, 0.3)):
        written.write(step, loss)
    written.writer.wait()
    assert written.told == [(1, []), (2, []), (3, [1]), (4, []), (5, [3])]
    assert [info.step for info in files.known(tmp_path)] == [2, 4, 5]
    assert written.warned == []


def test_the_program_goes_on_while_one_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    real = files.write

    def slowly(*args: Any) -> Path:
        begun.set()
        go_on.wait()
        return real(*args)

    monkeypatch.setattr(files, "write", slowly)
    written = Written(tmp_path, Checkpoint())
    written.write(1)
    begun.wait()
    assert written.writer.is_busy
    assert written.told == []
    go_on.set()
    written.writer.wait()
    assert written.told == [(1, [])]
    assert not written.writer.is_busy


def test_a_place_that_is_gone_is_told_of_once_and_written_to_when_it_is_back(tmp_path: Path) -> None:
    place = tmp_path / "place"
    written = Written(place, Checkpoint())
    written.write(1)
    written.writer.wait()
    shutil.rmtree(place)
    place.write_text("a file is here")
    for step in (2, 3):
        written.write(step)
    written.writer.wait()
    assert [title for title, _ in written.warned] == ["The checkpoint of step 2 was not written"]
    assert str(tmp_path) in written.warned[0][1]
    place.unlink()
    written.write(4)
    written.writer.wait()
    assert [step for step, _ in written.told] == [1, 4]


def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".writing-1-ab").mkdir()
    written = Written(tmp_path, Checkpoint())
    written.write(2)
    written.writer.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["2"]


def test_the_thread_goes_behind_the_program_unless_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real = files.write

    def looking(*args: Any) -> Path:
        seen.append(os.getpriority(os.PRIO_PROCESS, 0))
        return real(*args)

    monkeypatch.setattr(files, "write", looking)
    written = Written(tmp_path, Checkpoint())
    own = os.getpriority(os.PRIO_PROCESS, 0)
    written.write(1)
    written.write(2, last=True)
    written.writer.wait()
    assert seen == [min(own + NICENESS, 19), own]
    assert os.getpriority(os.PRIO_PROCESS, 0) == own
