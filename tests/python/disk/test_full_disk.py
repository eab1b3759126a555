"""If a disk is full or read-only, the user is told, nothing is lost silently, and ``close()`` returns."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.schema.events import Note, decode_event
from jupyter_dtf.schema.run import RunState

from .small_disk import run_on_small_disks

TRAIN = """
import os, subprocess, sys, threading, warnings
import jupyter_dtf as dtf
from jupyter_dtf.client.session import session

def until(condition):
    changed = threading.Event()
    leave = session().call(subscribe(changed.set))
    while not condition():
        changed.wait()
        changed.clear()

def subscribe(callback):
    async def work(fleet):
        return fleet.subscribe(callback)
    return work

def program(count, ctx):
    for step in range(count):
        ctx.report(step=step, loss=1.0 / (step + 1))

data = os.environ["JUPYTER_DTF_DATA_DIR"]
cluster = dtf.Cluster(jobs={"worker": 1}, name="small")
"""


@pytest.fixture
def data_dir() -> Path:
    path = Path(os.environ["JUPYTER_DTF_DATA_DIR"])
    path.mkdir(parents=True)
    return path


@pytest.fixture
def short_path() -> Iterator[Path]:
    """Create a directory whose path is short enough for sockets in it, unlike those of pytest."""
    with tempfile.TemporaryDirectory(prefix="dtf-") as directory:
        yield Path(directory)


def test_what_a_full_disk_refuses_is_said_at_once_and_written_when_there_is_room(data_dir: Path) -> None:
    script = """
from jupyter_dtf.backend.records.store import Store
from jupyter_dtf.schema.events import Note
def told():
    return [warning for warning in cluster.info.warnings if "not being saved" in warning]
run = cluster.run(program, 50_000)
until(told)
(warning,) = told()
assert data in warning and "No space left on device" in warning, warning
assert "Free some space" in warning and "free" in warning, warning
second = cluster.run(program, 10)
def notes(run):
    return [e.title for _, e in session().hub.events(run.id) if isinstance(e, Note)]
for each in (run, second):
    assert notes(each).count("This run is not being saved") == 1, notes(each)
    assert each.status == "succeeded"
subprocess.run(["mount", "-o", "remount,size=64m", data], check=True)
until(lambda: not told())
store = Store()
for each in (run, second):
    assert store.run(each.id).state.value == "succeeded"
    assert list(notes(each))[-1] == "Saving of this run has resumed"
assert len(run.metrics.query("metric == 'loss'")) == 50_000
with warnings.catch_warnings():
    warnings.simplefilter("error")
    cluster.close()
assert store.next_seq(run.id) == store.run(run.id).next_seq
"""
    run_on_small_disks(TRAIN + script, {data_dir: "size=600k"})


def test_a_cluster_that_ends_before_there_is_room_saves_its_runs_elsewhere(data_dir: Path, short_path: Path) -> None:
    script = """
run = cluster.run(program, 50_000)
until(lambda: any("not being saved" in warning for warning in cluster.info.warnings))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    cluster.close()
(word,) = [str(each.message) for each in caught if "could not be saved" in str(each.message)]
assert run.id in word and data in word, word
print(word.rsplit("JUPYTER_DTF_DATA_DIR=", 1)[1].split()[0], run.id)
assert run.status == "succeeded"
assert not dtf.clusters()
"""
    elsewhere = short_path / "tmp"
    elsewhere.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(elsewhere))
        directory, run_id = run_on_small_disks(TRAIN + script, {data_dir: "size=600k"}).split()
    store = Store(Path(directory) / "runs.sqlite")
    assert Path(directory).parent == elsewhere
    assert store.run(run_id).state is RunState.SUCCEEDED
    assert store.run(run_id).latest["loss"] == 1 / 50_000
    notes = [event for event in (decode_event(data) for _, data in store.events(run_id)) if isinstance(event, Note)]
    titles = [note.title for note in notes if note.level == "warning"]
    assert titles.count("This run is not being saved") == 1
    store.close()


def test_without_any_room_close_says_what_would_be_lost_and_a_second_one_ends_it(
    data_dir: Path, short_path: Path
) -> None:
    script = """
run = cluster.run(program, 50_000)
until(lambda: cluster.info.warnings)
for place in ("TMPDIR", "HOME"):
    with open(os.environ[place] + "/filling", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
for _ in range(2):
    try:
        cluster.close()
    except dtf.Unavailable as error:
        print(error)
assert not dtf.clusters()
"""
    places = [short_path / "tmp", short_path / "home"]
    for place in places:
        place.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(places[0]))
        patch.setenv("HOME", str(places[1]))
        disks = {data_dir: "size=600k", places[0]: "size=200m", places[1]: "size=1m"}
        (said,) = run_on_small_disks(TRAIN + script, disks).splitlines()
    assert "does not end" in said
    assert "Close it again to kill it immediately" in said
    assert "1 run (" in said
    assert "would be lost" in said
    assert "Free some space" in said


@pytest.mark.parametrize("variable", ["JUPYTER_DTF_DATA_DIR", "JUPYTER_RUNTIME_DIR"])
def test_a_directory_that_cannot_be_written_is_named_before_anything_starts(variable: str) -> None:
    script = """
import os, sys
import jupyter_dtf as dtf
assert dtf.clusters() == []
assert dtf.runs() == []
try:
    dtf.Cluster(jobs={"worker": 1})
except dtf.Unavailable as error:
    print(error)
"""
    home = Path(os.environ[variable]).parent / "read-only"
    home.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(variable, str(home / "below"))
        said = run_on_small_disks(script, {home: "ro"})
    assert "Read-only file system" in said
    assert str(home) in said
    assert f"set {variable} to another directory" in said


def test_a_full_directory_for_programs_fails_the_launch_with_a_sentence(short_path: Path) -> None:
    script = """
import os, subprocess
import numpy as np
import jupyter_dtf as dtf
with dtf.Cluster(jobs={"worker": 2}) as cluster:
    cluster.run(lambda _args, ctx: None)
    try:
        cluster.run(lambda array, ctx: float(array.sum()), np.zeros(30 << 20, np.uint8))
    except dtf.RunFailed as error:
        print(error)
    print(cluster.run(lambda _args, ctx: ctx.rank).result())
"""
    temporary = short_path / "t"
    temporary.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        said = run_on_small_disks(script, {temporary: "size=20m", Path("/dev/shm"): "size=10m"})
    refused, worked = said.splitlines()
    assert f"The program cannot be written to {temporary}" in refused
    assert "30.0 MiB are needed" in refused
    assert "of 20.0 MiB are free" in refused
    assert worked == "[0, 1]"


def test_memory_that_is_too_small_to_share_is_an_error_that_names_it() -> None:
    script = """
import numpy as np
import jupyter_dtf as dtf
def sums(_args, ctx):
    return dtf.allreduce(np.ones(4, np.float32)).numpy().tolist()
with dtf.Cluster(jobs={"worker": 2}) as cluster:
    try:
        cluster.run(sums)
    except dtf.RunFailed as error:
        print(str(error).replace(chr(10), " "))
"""
    said = run_on_small_disks(script, {Path("/dev/shm"): "size=256k"})
    assert "The data that tasks share cannot be written to /dev/shm" in said
    assert "are needed" in said
    assert "--shm-size" in said
