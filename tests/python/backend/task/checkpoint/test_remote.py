"""Tests of checkpoints at URLs that fsspec or TensorFlow supports: complete or absent, although nothing is renamed."""

from __future__ import annotations

import gc
import json
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jupyter_dtf.backend.task.checkpoint import files, remote
from jupyter_dtf.backend.task.checkpoint.places import directory_of, place_of
from jupyter_dtf.backend.task.checkpoint.writer import Writer
from jupyter_dtf.errors import InvalidInput, NotFound
from jupyter_dtf.schema.checkpoint import FORMAT, Checkpoint, Manifest


@pytest.fixture(params=["memory", "file", "ram"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a URL for checkpoints. Only TensorFlow supports ``ram``; fsspec does not."""
    where = tmp_path if request.param == "file" else uuid.uuid4().hex
    return f"{request.param}://{where}/runs"


def write(place: str, step: int = 7, value: float = 1.0, metric: float | None = None) -> str:
    manifest = Manifest(format=FORMAT, kind="program", step=step, metric=metric)
    return remote.write(place, manifest, {"a": np.full(3, value)}, files.pickled({"step": step}))


def names(place: str) -> list[str]:
    system, root = remote.opened(place)
    found = [path for step in system.ls(root, detail=False) for path in system.ls(step, detail=False)]
    return sorted(str(path).rpartition("/")[2] for path in found)


def test_what_was_written_is_read_and_written_over(place: str) -> None:
    with pytest.raises(NotFound, match="no complete checkpoint"):
        remote.newest(place)
    assert write(place) == f"{place}/7"
    write(place, 8, 2.0)
    write(place, 7, 3.0)
    assert [(info.step, info.path) for info in remote.known(place)] == [(7, f"{place}/7"), (8, f"{place}/8")]
    stored = remote.newest(place)
    assert (stored.info.path, stored.state()) == (f"{place}/8", {"step": 8})
    for found in (remote.newest(place, 7), remote.newest(f"{place}/7")):
        assert found.arrays()["a"].tolist() == [3.0] * 3
    with pytest.raises(NotFound, match="of step 9"):
        remote.newest(place, 9)


def test_nothing_is_there_before_the_manifest_and_what_was_left_is_removed(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, 7)
    system = remote.opened(place)[0]
    real, sent = type(system).put_file, []

    def put_file(self: Any, here: str, there: str, **more: Any) -> None:
        sent.append(there.rpartition("/")[2])
        if sent[-1] == "manifest.json":
            raise ConnectionError("the link is down")
        real(self, here, there, **more)

    with monkeypatch.context() as patch:
        patch.setattr(type(system), "put_file", put_file)
        with pytest.raises(ConnectionError):
            write(place, 8)
    assert sent[-1] == "manifest.json"
    assert len(sent) == len(set(sent)) > 3
    assert remote.newest(place).manifest.step == 7
    remote.clean(place)
    assert "manifest.json" in names(place)
    assert len(names(place)) == len(sent)


def test_a_checkpoint_stays_until_another_of_its_step_is_complete(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a step is saved again after a return to an earlier one, a failed upload leaves its old checkpoint complete."""
    write(place, 7, 1.0)
    system = remote.opened(place)[0]
    real = type(system).put_file
    files_of_one = len(names(place))

    def value() -> float:
        return float(remote.newest(place, 7).arrays()["a"][0])

    for round_, value_before in enumerate((1.0, 100.0)):  # a first checkpoint, and one that has replaced it
        for failing in range(files_of_one):
            sent: list[str] = []

            def put_file(self: Any, here: str, there: str, sent: list[str] = sent, at: int = failing) -> None:
                sent.append(there)
                real(self, here, there)
                if len(sent) == at + 1:
                    system.rm(there, recursive=False)  # as if it had not been uploaded
                    raise ConnectionError("the link is down")

            with monkeypatch.context() as patch:
                patch.setattr(type(system), "put_file", put_file)
                with pytest.raises(ConnectionError):
                    write(place, 7, 9.0)
            assert value() == value_before
            assert [info.step for info in remote.known(place)] == [7]
        remote.clean(place)  # what the failed uploads have left
        assert value() == value_before
        assert len(names(place)) == (files_of_one if round_ == 0 else 2)
        write(place, 7, 100.0)
        assert value() == 100.0
        assert len(names(place)) == 2  # its manifest, and the directory of its files
    remote.remove(f"{place}/7")
    assert remote.known(place) == []


def test_the_files_of_a_checkpoint_are_in_its_directory(place: str, tmp_path: Path) -> None:
    write(place, 7)
    system, root = remote.opened(place)
    raw = json.loads(system.cat_file(f"{root}/7/manifest.json"))
    (tmp_path / "manifest").write_text(json.dumps(raw | {"files_in": "../../7"}))
    system.put_file(str(tmp_path / "manifest"), f"{root}/7/manifest.json")
    with pytest.raises(InvalidInput, match="`files_in` of a manifest.json must be empty or again- .*got '../../7'"):
        remote.newest(place, 7)


def test_what_was_brought_here_goes_with_who_has_asked_for_it(place: str) -> None:
    write(place)
    found = remote.newest(place)
    here = found.path
    assert here.is_dir()
    del found
    gc.collect()
    assert not here.exists()


def test_what_is_damaged_is_passed_over_and_the_manifest_goes_first(place: str, tmp_path: Path) -> None:
    for step in (7, 8):
        write(place, step)
    system, root = remote.opened(place)
    (tmp_path / "other").write_bytes(b"other")
    system.put_file(str(tmp_path / "other"), f"{root}/8/state.pickle")
    assert remote.newest(place).manifest.step == 7
    with pytest.raises(InvalidInput, match="as they were written"):
        remote.newest(place, 8)
    system.rm(f"{root}/7/state.pickle", recursive=False)
    with pytest.raises(InvalidInput, match="must have all of its files"):
        remote.newest(place, 7)
    remote.remove(f"{place}/7")
    assert [info.step for info in remote.known(place)] == [8]


def test_the_newest_and_the_best_are_kept(place: str) -> None:
    told: list[tuple[int, list[int], str]] = []
    warned: list[Any] = []
    writer = Writer(
        place_of(place),
        Checkpoint(keep=1, best="val_loss"),
        lambda info, removed: told.append((info.step, removed, info.path)),
        lambda *words: warned.append(words),
    )
    for step, loss in ((1, 0.9), (2, 0.1), (3, 0.5), (4, 0.3)):
        manifest = Manifest(format=FORMAT, kind="program", step=step, metric=loss)
        writer.write(manifest, {"a": np.full(3, step)}, files.pickled(step))
    writer.wait()
    assert told == [(1, [], f"{place}/1"), (2, [1], f"{place}/2"), (3, [], f"{place}/3"), (4, [3], f"{place}/4")]
    assert [info.step for info in remote.known(place)] == [2, 4]
    assert warned == []


def test_a_place_that_cannot_be_reached_is_refused_before_anything_is_trained() -> None:
    class Here:
        run_id = "r"

    for url in ("nowhere://a/b", "s3://"):
        with pytest.raises(InvalidInput, match="fsspec reaches|fsspec") as refused:
            directory_of(Checkpoint(directory=url), Here())
        assert refused.value.field == "directory"
    assert directory_of(Checkpoint(directory="memory://a/"), Here()) == "memory://a/r"
