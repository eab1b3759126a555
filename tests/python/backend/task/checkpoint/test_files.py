"""Tests of checkpoint files: they appear atomically, only their owner can access them, and they are read unchanged."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.checkpoint import files
from jupyter_dtf.errors import InvalidInput, NotFound
from jupyter_dtf.schema.checkpoint import FORMAT, Manifest

from ....patience import left_s
from ..gang import forked

ARRAYS: dict[str, Any] = {
    "model/0/kernel": np.arange(12, dtype=np.float32).reshape(3, 4),
    "model/1/words": np.array([b"a", b"bc\0d"], dtype=object),
    "model/2/flag": np.array(True),
    "model/3/nothing": np.zeros((0, 5), np.int64),
}


def manifest(step: int) -> Manifest:
    return Manifest(format=FORMAT, kind="program", step=step, epoch=1, metric=0.25, tasks=2)


def write(directory: Path, step: int = 7, arrays: dict[str, Any] | None = None) -> Path:
    return files.write(directory, manifest(step), ARRAYS if arrays is None else arrays, files.pickled({"step": step}))


def test_what_was_written_is_read(tmp_path: Path) -> None:
    import tensorflow as tf

    path = write(tmp_path / "some" / "where")
    assert path == tmp_path / "some" / "where" / "7"
    stored = files.newest(path.parent)
    arrays = stored.arrays()
    assert list(arrays) == list(ARRAYS)
    for key, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[key], array)
        assert arrays[key].dtype == array.dtype
    assert stored.state() == {"step": 7}
    size = sum(file.stat().st_size for file in path.iterdir() if file.name != "manifest.json")
    assert (stored.info.step, stored.info.epoch, stored.info.metric, stored.info.bytes) == (7, 1, 0.25, size)
    for place in (path, path / "variables"):  # readable with TensorFlow's own tools
        reader = tf.train.load_checkpoint(str(place))
        np.testing.assert_array_equal(reader.get_tensor("model/0/kernel"), ARRAYS["model/0/kernel"])
    assert tf.train.latest_checkpoint(str(path)) == str(path / "variables")


def test_a_checkpoint_without_arrays_is_one(tmp_path: Path) -> None:
    write(tmp_path, arrays={})
    assert files.newest(tmp_path).arrays() == {}


def test_the_files_are_their_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = write(tmp_path / "new")
    finally:
        os.umask(before)
    found = [path.parent, path, *path.iterdir()]
    modes = {stat.S_IMODE(each.stat().st_mode) for each in found if each.is_file()}
    assert modes == {0o600}
    assert {stat.S_IMODE(each.stat().st_mode) for each in found if each.is_dir()} == {0o700}


def test_a_step_that_is_written_again_is_replaced(tmp_path: Path) -> None:
    write(tmp_path)
    write(tmp_path, arrays={"a": np.array(2)})
    assert list(files.newest(tmp_path).arrays()) == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["7"]


def test_what_was_to_be_replaced_is_put_back_if_its_writer_was_killed(tmp_path: Path) -> None:
    write(tmp_path).rename(tmp_path / ".replaced-7")
    assert files.newest(tmp_path).manifest.step == 7  # readable even before the next write
    files.clean(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["7"]
    write(tmp_path, 8).rename(tmp_path / ".replaced-7")
    files.clean(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["7"]
    assert files.newest(tmp_path).state() == {"step": 7}


def test_a_writer_that_failed_leaves_nothing(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(Exception, match="nonsense|convert"):
        write(tmp_path, 8, {"a": object()})
    assert [path.name for path in tmp_path.iterdir()] == ["7"]


def spoil(path: Path, how: str) -> None:
    data = next(path.glob("variables.data*"))
    if how == "a bit":
        content = bytearray(data.read_bytes())
        content[len(content) // 2] ^= 1
        data.write_bytes(content)
    elif how == "short":
        data.write_bytes(data.read_bytes()[:-1])
    elif how == "gone":
        data.unlink()
    elif how == "no json":
        (path / "manifest.json").write_bytes(b"\x80nonsense")
    elif how == "a list":
        (path / "manifest.json").write_text("[]")
    elif how == "empty":
        (path / "manifest.json").write_text("")
    elif how == "newer":
        told = json.loads((path / "manifest.json").read_text())
        (path / "manifest.json").write_text(json.dumps({**told, "format": FORMAT + 1}))
    elif how == "no step":
        told = json.loads((path / "manifest.json").read_text())
        del told["step"]
        (path / "manifest.json").write_text(json.dumps(told))
    elif how == "elsewhere":
        told = json.loads((path / "manifest.json").read_text())
        told["files"]["../secret"] = {"bytes": 1, "sha256": ""}
        (path / "manifest.json").write_text(json.dumps(told))
    else:
        (path / "manifest.json").unlink()
        os.mkfifo(path / "manifest.json")


SPOILT = {
    "a bit": "as they were written",
    "short": "as they were written",
    "gone": "must have all of its files",
    "no json": "must be a JSON object",
    "a list": "must be a JSON object",
    "empty": "must be a JSON object",
    "newer": f"must be of format {FORMAT}",
    "no step": "missing required field `step`",
    "elsewhere": "must be in the directory of its manifest.json",
    "a pipe": "cannot be read",
}


@pytest.mark.parametrize("how", SPOILT)
def test_what_is_damaged_is_said_to_be_and_the_one_before_is_read(tmp_path: Path, how: str) -> None:
    write(tmp_path, 5)
    path = write(tmp_path, 7)
    spoil(path, how)
    assert files.newest(tmp_path).manifest.step == 5
    with pytest.raises(InvalidInput, match=SPOILT[how]) as caught:
        files.Stored(path)
    assert str(path) in str(caught.value)


def test_nonsense_in_a_directory_is_passed_over(tmp_path: Path) -> None:
    for name in ("9", "notes.txt", ".writing-3-ab", "-1", "1e3", "99999999999999999999999"):
        (tmp_path / name).mkdir()
    (tmp_path / "8").write_text("a file")
    assert files.known(tmp_path) == []
    with pytest.raises(NotFound, match=f"There is no complete checkpoint in {tmp_path}"):
        files.newest(tmp_path)
    with pytest.raises(NotFound, match=r"of step 3 in"):
        files.newest(tmp_path, 3)
    with pytest.raises(NotFound, match="no complete checkpoint"):
        files.newest(tmp_path / "missing")
    write(tmp_path, 2)
    assert [info.step for info in files.known(tmp_path)] == [2]


def test_somebody_elses_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path)
    monkeypatch.setattr(os, "getuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(InvalidInput, match="must belong to this user"):
        files.newest(path)


def write_for_ever(directory: Path) -> None:
    """Write checkpoints up to the next step that is a multiple of 3, then this step again and again.

    The file ``begun`` is created once a checkpoint has been written.
    """
    files.clean(directory)
    step = 1 + max([info.step for info in files.known(directory)], default=0)
    while True:
        arrays = {"a": np.full(200_000, step, np.float64), "b": np.arange(step)}
        files.write(directory, manifest(step), arrays, files.pickled({"step": step}))
        (directory / "begun").touch()
        for info in files.known(directory)[:-3]:
            files.remove(Path(info.path))
        step += step % 3 != 0


def test_a_writer_that_is_killed_at_any_moment_leaves_complete_ones_alone(tmp_path: Path) -> None:
    waits = np.random.default_rng(3)
    for _ in range(12):
        (tmp_path / "begun").unlink(missing_ok=True)
        process = forked(write_for_ever, tmp_path)
        try:
            until = time.monotonic() + left_s()
            while not (tmp_path / "begun").exists():
                assert process.is_alive() and time.monotonic() < until
                time.sleep(0.001)
            process.join(float(waits.uniform(0, 0.05)))
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.join()
        found = files.known(tmp_path)
        assert found
        for info in found:
            stored = files.Stored(Path(info.path))
            assert (stored.arrays()["a"] == info.step).all()
            assert stored.state() == {"step": info.step}
    files.clean(tmp_path)
    assert all(path.name.isdigit() or path.name == "begun" for path in tmp_path.iterdir())


def test_what_somebody_is_writing_stays(tmp_path: Path) -> None:
    aside = tmp_path / ".writing-3-ab"
    aside.mkdir()
    with files._locked(aside):
        files.clean(tmp_path)
        assert aside.exists()
    files.clean(tmp_path)
    assert not aside.exists()
