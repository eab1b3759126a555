"""Transfers of large programs: by shared files if both sides see them, otherwise sent; also interrupted ones."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from distributed import Scheduler, Security

import jupyter_dtf as dtf
from jupyter_dtf.backend.cluster import program_transfer
from jupyter_dtf.backend.cluster.active_run import Run
from jupyter_dtf.backend.cluster.controller import Controller
from jupyter_dtf.backend.cluster.program_transfer import ProgramTransfer
from jupyter_dtf.backend.cluster.settings import ControllerSettings
from jupyter_dtf.backend.cluster.task_assignment import TaskAssignment
from jupyter_dtf.backend.machine import paths, shared_directory
from jupyter_dtf.backend.machine.shared_directory import SharedDirectory, answer, read_word
from jupyter_dtf.backend.machine.visibility_mark import Mark
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.backend.viewer.sending import SENT_APART_BYTES, Sending
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema import payload, private_files
from jupyter_dtf.schema.cluster_request import ClusterRequest
from jupyter_dtf.schema.events import Progressed, decode_event
from jupyter_dtf.schema.run import RunInfo, RunRequest, RunState

from ... import patience
from ...patience import left_s
from .test_link import connection_to

pytestmark = pytest.mark.module_directories

LARGE = np.arange(2 * SENT_APART_BYTES, dtype=np.uint8)


def mapped(args: dict[str, Any], ctx: Any) -> tuple[str, dict[str, Any]]:
    """Return the file from which this task's program comes, and the arguments that it has received."""
    with open("/proc/self/maps") as file:
        (path,) = {line.split(maxsplit=5)[5].strip() for line in file if "/program" in line or "/payload" in line}
    return path, {name: value for name, value in args.items() if name != "large"} | {"sum": int(args["large"].sum())}


def directories(token: str) -> list[Path]:
    """Return the shared directories of this cluster, and not those of other tests' clusters."""
    return [path for parent in paths.family_parents() for path in parent.glob(f"{token}/{shared_directory.PREFIX}*")]


def test_all_tasks_map_one_file_that_the_client_has_written(cluster: dtf.Cluster) -> None:
    import pandas as pd
    import tensorflow as tf

    grid = np.arange(12.0).reshape(3, 4)
    args = {
        "large": LARGE,
        "striped": grid[:, ::2],
        "words": np.array(["a", None, b"c"], object),
        "frame": pd.DataFrame({"n": [1, 2], "s": ["x", "y"]}),
        "tensor": tf.constant([[1.5, 2.5]]),
        "empty": np.zeros((0, 3)),
    }
    results = cluster.run(mapped, args).result()
    paths, values = zip(*results, strict=True)
    assert len(set(paths)) == 1
    assert Path(paths[0]).name == shared_directory.PROGRAM
    for found in values:
        assert found["sum"] == int(LARGE.sum())
        np.testing.assert_array_equal(found["striped"], grid[:, ::2])
        assert list(found["words"]) == ["a", None, b"c"]
        assert found["frame"].equals(args["frame"])
        assert found["tensor"].numpy().tolist() == [[1.5, 2.5]]
        assert found["empty"].shape == (0, 3)
    token = connections.read(cluster.name).token
    patience.until(lambda: not directories(token), lambda: directories(token))  # a thread removes them


def test_a_client_elsewhere_sends_it_in_pieces(cluster: dtf.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_directory, "read_word", lambda directory: "")
    run = cluster.run(mapped, {"large": LARGE}, wait=False)
    assert not run.is_being_sent  # the caller may change the arrays again
    assert [found[1]["sum"] for found in run.result()] == [int(LARGE.sum())] * 2
    said = [event for _, event in run._session.hub.events(run.id) if isinstance(event, Progressed)]
    assert said[0].progress.unit == "byte"
    assert said[0].progress.total > LARGE.nbytes
    assert run.info.progress.total == 0  # it does not affect the program's own progress


def test_a_place_that_is_full_is_left_for_the_next(cluster: dtf.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    write, tried = shared_directory.write, []

    def full_at_first(descriptor: int, data: Any) -> None:
        tried.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        if tried[0] == tried[-1]:
            raise OSError(28, "No space left on device")
        write(descriptor, data)

    monkeypatch.setattr(shared_directory, "write", full_at_first)
    assert [found[1]["sum"] for found in cluster.run(mapped, {"large": LARGE}).result()] == [int(LARGE.sum())] * 2
    assert len(set(tried)) == 2


# -- with a controller only ---------------------------------------------------------------------------------------


def on_a_controller(tmp_path: Path, work: Callable[[Controller, Any], Awaitable[None]]) -> None:
    async def do() -> None:
        security = Security.temporary()
        async with Scheduler(port=0, dashboard_address=":0", security=security, protocol="tls") as scheduler:
            controller = Controller(
                ControllerSettings(
                    request=ClusterRequest(name="c", jobs={"worker": 1}, keep=True),
                    token=f"test-{os.getpid()}",
                    runs=Mark.of(tmp_path),
                    created=time.time(),
                )
            )
            await controller.start(scheduler)
            await work(controller, connection_to(scheduler.address, security))
            await controller.close()

    try:
        asyncio.run(asyncio.wait_for(do(), left_s()))
    finally:
        for parent in paths.family_parents():
            private_dir = parent / f"test-{os.getpid()}"
            if private_dir.is_dir():
                assert not list(private_dir.iterdir())  # nothing of any program is left
                private_dir.rmdir()


async def begin(connection: Any, data: np.ndarray[Any, Any] = LARGE) -> tuple[Sending, str]:
    sending = Sending(connection, payload.packed((len, (data,), {})))
    info = await sending.start(msgspec.msgpack.encode(RunRequest(name="r")))
    return sending, info["id"]


async def settled(run: Run) -> None:
    await asyncio.wait_for(run.ended.wait(), left_s())
    while directories(f"test-{os.getpid()}"):  # removed by a thread
        await asyncio.sleep(patience.LOOK_EVERY_S)


def test_a_run_is_there_before_its_program_and_is_stopped_while_that_is_sent(tmp_path: Path) -> None:
    async def stop(controller: Controller, connection: Any) -> None:
        sending, run_id = await begin(connection)
        run = controller.runs.find(run_id)
        while not run.info.message:
            await asyncio.sleep(0)
        assert run.info.message.startswith("sending 0 B of 2.0 MiB")
        assert run.info.state is RunState.PENDING
        await controller.stop_run(run_id)
        await sending.finish(lambda: run.info.state.is_final)
        assert run.info.state.value == "stopped"
        # A run that waits for hosts ends once it is woken, and nothing else removes its directories here.
        await controller.assignment.wake()
        await settled(run)

    on_a_controller(tmp_path, stop)


def test_a_sender_that_goes_away_is_the_end_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskAssignment, "has_all_hosts", True)

    async def go(controller: Controller, connection: Any) -> None:
        sending, run_id = await begin(connection)
        assert sending._comm is not None
        await sending._comm.write({"done": 1 << 20})
        sending._comm.abort()
        run = controller.runs.find(run_id)
        await settled(run)
        assert run.info.state is RunState.FAILED
        assert run.info.message == "the client disconnected while it was sending the program and its data"

    monkeypatch.setattr(TaskAssignment, "plan", lambda *_: [])
    on_a_controller(tmp_path, go)


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ({"at": 0, "word": "0" * 64}, "cannot access the directory"),
        ({"at": 7, "word": ""}, "cannot access the directory"),
        ({"failed": "no room is left"}, "no room is left"),
        ({"nothing": 1}, "could not be received: KeyError"),
    ],
)
def test_what_is_no_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: dict[str, Any], why: str
) -> None:
    monkeypatch.setattr(TaskAssignment, "has_all_hosts", True)
    monkeypatch.setattr(TaskAssignment, "plan", lambda *_: [])

    async def lie(controller: Controller, connection: Any) -> None:
        sending, run_id = await begin(connection)
        assert sending._comm is not None
        await sending._comm.write(message)
        run = controller.runs.find(run_id)
        await settled(run)
        assert why in run.info.message
        sending._comm.abort()

    on_a_controller(tmp_path, lie)


def test_a_file_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    box = ProgramTransfer.to_come(10, lambda: tmp_path / "memory", lambda: tmp_path / "disk")
    directory = box.places[-1]
    os.write(shared_directory.create(directory), b"short")
    with pytest.raises(Unavailable, match="must be a file of 10 bytes, got one of 5"):
        box._check(len(box.places) - 1, read_word(directory))


# -- the parts ----------------------------------------------------------------------------------------------------


def test_only_who_sees_a_place_knows_its_word(tmp_path: Path) -> None:
    place = SharedDirectory(tmp_path)
    assert place.is_seen_by(read_word(place.directory))
    assert not place.is_seen_by("")
    assert answer("", "challenge") == ""
    place.directory.chmod(0o755)  # others could have read it too
    assert read_word(place.directory) == ""
    assert read_word(tmp_path / "nowhere") == ""


def test_a_file_that_somebody_has_put_there_is_not_written_over(tmp_path: Path) -> None:
    place = SharedDirectory(tmp_path)
    place.program.symlink_to(tmp_path / "other")
    with pytest.raises(FileExistsError):
        shared_directory.create(place.directory)


def test_memory_is_used_only_where_there_is_plenty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, disk = private_files.make_dir(tmp_path / "memory"), private_files.make_dir(tmp_path / "disk")
    both = ProgramTransfer.to_come(1000, lambda: memory, lambda: disk)
    assert [Path(place).parent for place in both.places] == [memory, disk]
    monkeypatch.setattr(program_transfer, "_left_of_limit", lambda: 1999)  # of a container
    tight = ProgramTransfer.to_come(1000, lambda: memory, lambda: disk)
    assert [Path(place).parent for place in tight.places] == [disk]
    for each in (both, tight):
        each.remove()
    assert not [*memory.iterdir(), *disk.iterdir()]


class OtherHost:
    """A host that sees the shared directories in ``sees``."""

    def __init__(self, root: Path, sees: list[str]) -> None:
        self.place = SharedDirectory(root)
        self.sees = sees
        self.pieces: list[int] = []

    async def dtf_sees(self, directory: str, challenge: str) -> str:
        return answer(read_word(directory), challenge) if directory in self.sees else "no"

    async def dtf_put(self, run_id: str, at: int, data: bytes) -> tuple[str, str]:
        self.pieces.append(at)
        self.place.program.write_bytes((self.place.program.read_bytes() if at else b"") + data)
        return str(self.place.directory), self.place.word


def test_hosts_elsewhere_are_sent_it_once_for_each_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_transfer, "CHUNK_BYTES", 4)
    box = ProgramTransfer.to_come(10, lambda: tmp_path, lambda: tmp_path)
    program = Path(box.places[0])
    os.write(shared_directory.create(program), b"0123456789")
    box._check(0, read_word(program))
    far = OtherHost(private_files.make_dir(tmp_path / "far"), [])
    beside = OtherHost(private_files.make_dir(tmp_path / "beside"), [str(far.place.directory)])
    here = OtherHost(private_files.make_dir(tmp_path / "here"), [str(program)])
    hosts = {"far": far, "beside": beside, "here": here}
    run = Run(RunInfo(id="r", name="r", cluster="c"), RunRequest(), lambda *_: None, lambda *_: None)
    run.to(RunState.LAUNCHING)
    machines = [("far", "b"), ("beside", "b"), ("here", "a")]
    given = asyncio.run(box.hand_over(lambda address: hosts[address], run, machines))
    assert far.place.program.read_bytes() == b"0123456789"
    assert far.pieces == [0, 4, 8]
    assert (beside.pieces, here.pieces) == ([], [])
    assert given["far"] == given["beside"] == {"program": str(far.place.program)}
    assert given["here"] == {"program": str(program / shared_directory.PROGRAM)}
    said = [event for event in map(decode_event, run.log) if isinstance(event, Progressed)]
    assert [event.progress.unit for event in said] == ["byte", "step"]
    assert run.info.message == ""
