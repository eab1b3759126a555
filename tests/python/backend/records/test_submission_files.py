"""The submissions of runs: kept in private files, limited in size, and removed when they are of no use."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.records import submission_files
from jupyter_dtf.errors import InvalidInput, NotFound
from jupyter_dtf.schema import payload
from jupyter_dtf.schema.checkpoint import CheckpointInfo
from jupyter_dtf.schema.run import RunInfo, RunRequest

REQUEST = RunRequest(name="mlp", kind="fit", jobs={"worker": 2}, environment={"KEY": "secret"}, goes_on=True)


def program(size: int = 1000) -> payload.Packed:
    return payload.packed({"model": "m", "x": np.arange(size)})


def opened(packed: payload.Packed) -> Any:
    return payload.unpack(bytes(packed))


def test_it_is_read_as_it_was_kept_and_its_owners_alone(tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    before = os.umask(0)
    try:
        submission_files.keep(run_dir, REQUEST, program())
    finally:
        os.umask(before)
    found, kept = submission_files.read(run_dir)
    assert found == submission_files.Submission(format=1, request=REQUEST, bytes=program().size)
    np.testing.assert_array_equal(opened(kept)["x"], np.arange(1000))
    np.testing.assert_array_equal(payload.load(submission_files.program_file(run_dir))["x"], np.arange(1000))
    assert stat.S_IMODE((run_dir / submission_files.DIRECTORY).stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (run_dir / submission_files.DIRECTORY).iterdir()} == {0o600}
    submission_files.remove(run_dir)
    assert not run_dir.exists()


def test_of_a_program_that_is_too_large_the_rest_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission_files, "MOST_BYTES", 2000)
    submission_files.keep(tmp_path, REQUEST, program(), program(1))
    found, kept = submission_files.read(tmp_path)
    assert (found.left_out_bytes, found.bytes) == (program().size, program(1).size)
    assert opened(kept)["x"].size == 1
    for rest in (None, program(500)):
        submission_files.keep(tmp_path / "none", REQUEST, program(), rest)
        with pytest.raises(NotFound, match="The directory of the run, .*, does not contain the run's submission"):
            submission_files.read(tmp_path / "none")


def test_a_run_that_goes_on_shares_the_file(tmp_path: Path) -> None:
    submission_files.keep(tmp_path / "was", REQUEST, program())
    found, _ = submission_files.read(tmp_path / "was")
    again = RunRequest(name="mlp 2", kind="fit", goes_on=True, resumed_from="was", resume="/checkpoints")
    submission_files.keep_again(found, tmp_path / "was", tmp_path / "new", again)
    submission_files.remove(tmp_path / "was")
    found, kept = submission_files.read(tmp_path / "new")
    assert found.request == again
    assert opened(kept)["x"].size == 1000


def test_it_goes_with_a_run_that_has_no_checkpoint(tmp_path: Path) -> None:
    for checkpoint in (CheckpointInfo(step=7, epoch=1), None):
        submission_files.keep(tmp_path, REQUEST, program())
        submission_files.forget_if_useless(
            RunInfo(id="r", name="r", cluster="c", run_dir=str(tmp_path), checkpoint=checkpoint)
        )
        assert (tmp_path / submission_files.DIRECTORY).exists() == (checkpoint is not None)


@pytest.mark.parametrize("damage", ["shorter", "newer", "no json", "a pipe"])
def test_what_is_not_as_it_was_written_is_refused(tmp_path: Path, damage: str) -> None:
    submission_files.keep(tmp_path, REQUEST, program())
    file, words = submission_files.program_file(tmp_path), tmp_path / submission_files.DIRECTORY / "submission.json"
    if damage == "shorter":
        os.truncate(file, 10)
    elif damage == "newer":
        words.write_bytes(words.read_bytes().replace(b'"format":1', b'"format":2'))
    elif damage == "no json":
        words.write_text("[")
    else:
        file.unlink()
        os.mkfifo(file)
    with pytest.raises(InvalidInput):
        submission_files.read(tmp_path)


def test_a_place_that_is_not_to_be_had_is_no_reason_to_fail(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "run").write_text("a file")
    submission_files.keep(tmp_path / "run", REQUEST, program())
    assert "is not kept" in caplog.text


def test_it_does_not_take_the_room_of_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    room = os.statvfs(tmp_path)
    monkeypatch.setattr(submission_files, "ROOM", room.f_blocks * room.f_frsize)  # too much even for one byte
    submission_files.keep(tmp_path / "run", REQUEST, program())
    assert "times as much must be free" in caplog.text
    assert not (tmp_path / "run").exists()
