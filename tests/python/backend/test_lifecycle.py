"""Runs on a real cluster: how programs start, print, report, end, fail and are stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import psutil
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.cluster.kept_results import PART_BYTES
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.machine.processes import stat_of
from jupyter_dtf.backend.records.output_tail import ENDED_BYTES
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.client.session import session
from jupyter_dtf.client.task_output import LogLines
from jupyter_dtf.errors import InvalidInput, RunFailed
from jupyter_dtf.schema.events import Logged, Note, TaskChanged
from jupyter_dtf.schema.result_files import RESULTS
from jupyter_dtf.schema.run import RunState, TaskState

from .. import patience
from ..patience import left_s

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def events(run: dtf.Run) -> list[Any]:
    return [event for _seq, event in run._session.hub.events(run.id)]


def until_running(run: dtf.Run) -> dtf.Run:
    """Wait until the program of every task has printed a line."""

    def said() -> bool:
        assert not run.info.state.is_final, run
        return {event.task for event in events(run) if isinstance(event, Logged)} == {"worker:0", "worker:1"}

    patience.until(said, lambda: events(run))
    return run


def until_ended(pid: int) -> None:
    """Wait until a process that is not this one's child has ended, by polling it. A zombie counts as ended."""
    patience.until(lambda: (stat := stat_of(pid)) is None or stat.has_ended, f"the end of {pid}")


def waits(_args: object, ctx: Any) -> int:
    ctx.log("here")
    ctx.stop_requested.wait()
    return int(ctx.rank)


def test_each_task_knows_its_place(cluster: dtf.Cluster) -> None:
    def place(args: object, ctx: Any) -> dict[str, Any]:
        return {
            "args": args,
            "task": (ctx.job_name, ctx.task_index, ctx.rank, ctx.size, ctx.local_rank, ctx.local_size),
            "chief": ctx.is_chief,
            "threads": ctx.threads,
            "config": json.loads(os.environ["TF_CONFIG"]),
            "spec": ctx.cluster_spec.as_dict(),
            "dtf": (dtf.rank(), dtf.size(), dtf.is_chief()),
            "pid": os.getpid(),
        }

    zero, one = cluster.run(place, {"a": 1}).result()
    assert zero["args"] == one["args"] == {"a": 1}
    assert zero["task"] == ("worker", 0, 0, 2, 0, 2)
    assert one["task"] == ("worker", 1, 1, 2, 1, 2)
    assert (zero["chief"], one["chief"]) == (True, False)
    assert zero["dtf"] == (0, 2, True)
    assert zero["config"]["cluster"] == zero["spec"] == one["spec"]
    assert one["config"]["task"] == {"type": "worker", "index": 1}
    assert zero["pid"] != one["pid"]
    assert zero["threads"] == max(1, len(os.sched_getaffinity(0)) // 2)


def test_every_task_is_a_fresh_process(cluster: dtf.Cluster) -> None:
    def leave_a_trace(_args: object, _ctx: Any) -> bool:
        import keras

        seen = hasattr(keras, "dtf_trace")
        keras.dtf_trace = True
        return seen

    assert cluster.run(leave_a_trace).result() == [False, False]
    assert cluster.run(leave_a_trace).result() == [False, False]


def test_tensorflow_runs_in_the_tasks_on_their_reserved_ports(cluster: dtf.Cluster) -> None:
    def all_gather(_args: object, ctx: Any) -> list[float]:
        import tensorflow as tf

        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        gathered = strategy.gather(tf.constant([float(ctx.rank)]), axis=0)
        return [float(value) for value in gathered.numpy()]

    assert cluster.run(all_gather).result() == [[0.0, 1.0], [0.0, 1.0]]


def test_arrays_travel_and_results_come_back_by_rank_and_name(cluster: dtf.Cluster) -> None:
    array = np.arange(100_000.0)

    def total(args: Any, ctx: Any) -> float:
        args[0] = ctx.rank  # a task may write into its copy
        return float(args.sum())

    results = cluster.run(total, array).result()
    assert results["worker:1"] - results["worker:0"] == 1
    assert array[0] == 0


def test_results_of_many_runs_are_kept_on_disk_and_large_ones_travel_in_parts(cluster: dtf.Cluster) -> None:
    size = 2 * PART_BYTES + 5
    large = cluster.run(lambda _args, ctx: os.urandom(size) if ctx.rank else None)
    runs = [cluster.run(lambda number, _ctx: number, number, jobs={"worker": 1}, wait=False) for number in range(55)]
    assert [run.result() for run in runs] == [[number] for number in range(55)]  # more runs than the controller lists
    found = large.result()["worker:1"]
    assert len(found) == size
    assert found == large.result()[1]
    (file,) = (path for parent in paths.family_parents() for path in parent.glob(f"*/{RESULTS}/{large.id}"))
    assert found in file.read_bytes()


def test_output_is_carried_line_by_line(cluster: dtf.Cluster) -> None:
    def talk(_args: object, ctx: Any) -> None:
        print("first")
        print("zwölf", end="", flush=True)
        print("to stderr", file=sys.stderr)
        os.write(1, b" and more\nlast words")

    run = cluster.run(talk)
    stdout = [e for e in events(run) if isinstance(e, Logged) and e.stream == "stdout" and e.task == "worker:1"]
    lines = [line for e in stdout for line in e.lines]
    assert lines == ["first", "zwölf and more", "last words"]
    assert [e.first for e in stdout] == [sum(len(e.lines) for e in stdout[:i]) for i in range(len(stdout))]
    stderr = [line for e in events(run) if isinstance(e, Logged) and e.stream == "stderr" for line in e.lines]
    assert stderr.count("to stderr") == 2


def test_output_is_whole_in_files_and_bounded_in_memory(cluster: dtf.Cluster) -> None:
    lines = 60_000

    def talk(_args: object, ctx: Any) -> None:
        for first in range(0, lines, 1000):
            print("\n".join(f"{number:99}" for number in range(first, first + 1000)))
        print("last words of", ctx.rank)

    run = cluster.run(talk)
    expected = [f"{number:99}" for number in range(lines)]
    assert run.logs("worker", 1).split("\n") == [*expected, "last words of 1"]
    logged = [e for e in events(run) if isinstance(e, Logged)]
    assert sum(len(line) for e in logged for line in e.lines) <= ENDED_BYTES
    for rank in (0, 1):
        newest = next(e for e in reversed(logged) if e.task == f"worker:{rank}")
        assert (newest.first + len(newest.lines), newest.lines[-1]) == (lines + 1, f"last words of {rank}")
    shown = sum(1 for line in LogLines(run._session.hub, run.id).new() if line.startswith("worker:0 | "))
    assert shown == lines + 1
    run_dir = Path(run.info.run_dir)
    assert (run_dir / "task-output" / "worker-1.stdout").exists()
    session().hub.delete(run.id)
    assert not run_dir.exists()


def test_every_point_arrives_numbered_however_the_task_ends(cluster: dtf.Cluster) -> None:
    def report(args: Any, ctx: Any) -> None:
        for step in range(2000):
            ctx.report(step=step, loss=1 / (step + 1), accuracy=step)
        if args == "die" and ctx.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if args == "die":
            ctx.stop_requested.wait()

    for args in ("end", "die"):
        run = cluster.run(report, args, wait=False).wait(left_s())
        points = run.metrics.query("metric == 'loss' and task == 'worker:1'")
        assert list(points["step"]) == list(range(2000))
        assert points["seq"].is_monotonic_increasing
        assert points["value"].iloc[-1] == 1 / 2000
        assert run._session.hub.record(run.id).lost == {}


def test_a_failure_raises_here_with_the_tasks_own_traceback(cluster: dtf.Cluster) -> None:
    def fail(_args: object, ctx: Any) -> None:
        if ctx.rank == 1:
            raise ValueError("no such digit")
        ctx.stop_requested.wait()

    with pytest.raises(RunFailed, match="worker:1 failed: ValueError: no such digit") as caught:
        cluster.run(fail)
    assert caught.value.task == "worker:1"
    assert 'raise ValueError("no such digit")' in caught.value.traceback
    assert "process.py" not in caught.value.traceback
    info = dtf.run(caught.value.run_id).info
    assert [task.state for task in info.tasks] == [TaskState.STOPPED, TaskState.FAILED]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "worker:0 died (SIGSEGV)"),
        (lambda: os.kill(os.getpid(), 40), "worker:0 died (signal 40, SIGRTMIN+6)"),
        (lambda: os.kill(os.getpid(), 63), "worker:0 died (signal 63, SIGRTMIN+29)"),
        (lambda: os._exit(9), "worker:0 died with exit status 9"),
        (lambda: sys.exit(3), "worker:0 failed: SystemExit: 3"),
    ],
)
def test_a_death_is_told_in_words(cluster: dtf.Cluster, how: Any, message: str) -> None:
    def die(_args: object, ctx: Any) -> None:
        print("last words", flush=True)
        if ctx.rank == 0:
            how()
        ctx.stop_requested.wait()

    run = cluster.run(die, wait=False).wait(left_s())
    assert run.info.message == message
    assert "last words" in run.logs("worker", 0)


def test_a_collective_that_a_task_has_left_out_ends_with_that_task(cluster: dtf.Cluster) -> None:
    def leave(_args: object, ctx: Any) -> Any:
        return None if ctx.rank == 0 else float(dtf.allreduce(1.0))

    with pytest.raises(
        RunFailed, match="worker:1 has waited in a collective for .* program has ended on worker:0: all"
    ):
        cluster.run(leave)


def test_what_cannot_be_unpickled_fails_with_the_reason(cluster: dtf.Cluster) -> None:
    def explode() -> None:
        raise RuntimeError("not here")

    class Bomb:
        def __reduce__(self) -> Any:
            return explode, ()

    with pytest.raises(RunFailed, match="RuntimeError: not here"):
        cluster.run(lambda _args, _ctx: None, Bomb())


def test_a_program_is_asked_to_stop_and_ends_in_its_own_way(cluster: dtf.Cluster) -> None:
    run = until_running(cluster.run(waits, wait=False))
    assert run.status == "running"
    run.stop()
    assert run.wait(left_s()).status == "stopped"
    assert {task.state for task in run.info.tasks} == {TaskState.SUCCEEDED}
    with pytest.raises(dtf.RunStopped):
        run.result()


def test_a_program_that_does_not_stop_is_ended_after_its_grace(cluster: dtf.Cluster) -> None:
    def deaf(_args: object, ctx: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        ctx.log("here")
        time.sleep(1000)

    run = until_running(cluster.run(deaf, wait=False, stop_grace_s=0.2))
    run.stop()
    run.wait(left_s())
    assert run.status == "stopped"
    assert {task.signal for task in run.info.tasks} == {"SIGKILL"}
    assert any(isinstance(e, Note) and e.title == "The program did not stop on its own" for e in events(run))


def test_a_second_stop_does_not_wait_for_the_grace(cluster: dtf.Cluster) -> None:
    def slow(_args: object, ctx: Any) -> None:
        ctx.log("here")
        time.sleep(1000)

    run = until_running(cluster.run(slow, wait=False, stop_grace_s=1000))
    run.stop()
    run.stop()
    assert run.wait(left_s()).status == "stopped"


def daemon() -> int:
    """Start a process that leaves its parent, its group and its session behind, and return its id."""
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.setsid()
        if (grandchild := os.fork()) == 0:
            time.sleep(1000)
        os.write(write, str(grandchild).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return int(os.read(read, 16))


def test_what_a_task_starts_ends_with_it(cluster: dtf.Cluster) -> None:
    def start_children(_args: object, ctx: Any) -> list[int]:
        pids = [
            subprocess.Popen(["sleep", "1000"]).pid,
            subprocess.Popen(["sleep", "1000"], start_new_session=True).pid,
            daemon(),
        ]
        for pid in pids:
            os.kill(pid, 0)  # they run as long as the task does
        return pids

    for pids in cluster.run(start_children).result():
        for pid in pids:
            until_ended(pid)


def test_what_a_task_leaves_ends_while_others_go_on(cluster: dtf.Cluster) -> None:
    def leave(_args: object, ctx: Any) -> None:
        ctx.log(str(daemon()))
        if ctx.rank == 0:
            ctx.stop_requested.wait()

    run = until_running(cluster.run(leave, wait=False))
    run.wait_for(lambda _: any(task.state is TaskState.SUCCEEDED for task in run.info.tasks), left_s())
    until_ended(int(run.logs("worker", 1)))
    others = int(run.logs("worker", 0))
    assert psutil.Process(others).status() != psutil.STATUS_ZOMBIE
    run.stop()
    run.wait(left_s())
    until_ended(others)


@pytest.mark.parametrize("what", ["garbage", "a directory", "a pipe"])
def test_an_end_is_told_whatever_the_task_has_left(cluster: dtf.Cluster, what: str) -> None:
    def spoil(what: str, ctx: Any) -> None:
        if ctx.rank == 0:
            outcome = Path(ctx._spec.task_dir) / "outcome.msgpack"
            if what == "garbage":
                outcome.write_bytes(b"garbage")
            elif what == "a directory":
                outcome.mkdir()
            else:
                os.mkfifo(outcome)
            os._exit(0)

    run = cluster.run(spoil, what, wait=False).wait(left_s())
    assert run.status == "failed"
    assert run.info.message.startswith("worker:0 has ended, and its outcome cannot be read: ")
    assert cluster.run(lambda _args, ctx: ctx.rank).result() == [0, 1]


def test_what_a_task_says_of_ends_is_not_believed(cluster: dtf.Cluster) -> None:
    def lie(_args: object, ctx: Any) -> int:
        from jupyter_dtf.schema.events import RunChanged

        now = time.time()
        ctx._recorder.emit(RunChanged(time=now, state=RunState.SUCCEEDED))
        ctx._recorder.emit(TaskChanged(time=now, task="worker:1", state=TaskState.FAILED))
        ctx.log("here")
        ctx.stop_requested.wait()
        return int(ctx.rank)

    run = until_running(cluster.run(lie, wait=False))
    assert run.status == "running"
    run.stop()
    assert run.wait(left_s()).status == "stopped"
    assert {task.state for task in run.info.tasks} == {TaskState.SUCCEEDED}


def test_what_autograph_writes_goes_with_the_task(cluster: dtf.Cluster) -> None:
    def trace(_args: object, ctx: Any) -> None:
        from tensorflow.python.autograph.pyct import loader

        _module, path = loader.load_source("x = 1", delete_on_exit=True)
        ctx.log(path)
        os.kill(os.getpid(), signal.SIGKILL)

    run = cluster.run(trace, wait=False).wait(left_s())
    path = Path(run.logs().splitlines()[0].partition(" | ")[2])
    assert path.name.startswith("__autograph_generated_file")
    assert path.is_relative_to(connections.read("shared").directories[0])
    until_removed(path)


def until_removed(path: Path) -> None:
    patience.until(lambda: not path.exists(), f"the removal of {path}")


def test_runs_go_on_side_by_side_and_a_cluster_remembers_them(cluster: dtf.Cluster) -> None:
    first = until_running(cluster.run(waits, name="first", wait=False))
    second = until_running(cluster.run(waits, name="second", wait=False))
    assert cluster.info.active_runs == 2
    assert [run.info.name for run in cluster.runs][:2] == ["second", "first"]
    for run in (first, second):
        run.stop()
        run.wait(left_s())
    assert dtf.run(first.id).info.state is RunState.STOPPED


def test_scaling_changes_the_runs_to_come_and_crowding_is_said(cluster: dtf.Cluster) -> None:
    cores = len(os.sched_getaffinity(0))
    before = cluster.spec
    cluster.scale({"worker": cores + 1, "ps": 1})
    try:
        run = cluster.run(lambda _args, ctx: (ctx.task, ctx.threads))
        assert len(run.result()) == cores + 2
        assert run.result()["ps:0"] == ("ps:0", 1)
        titles = [e.title for e in events(run) if isinstance(e, Note)]
        assert titles == ["More threads than cores"]
        assert f"{cores + 2} tasks" in cluster.info.notes[0]
        assert set(cluster.spec.jobs) == {"worker", "ps"}
        assert cluster.devices[-1] == "/job:ps/task:0/device:CPU:0"
    finally:
        cluster.scale({"worker": 2})
    assert set(cluster.spec.jobs) == set(before.jobs)
    with pytest.raises(InvalidInput, match="from 1 to 10000, got worker=0"):
        cluster.scale({"worker": 0})


def test_a_run_may_take_some_of_the_jobs_and_threads(cluster: dtf.Cluster) -> None:
    run = cluster.run(lambda _args, ctx: (ctx.size, ctx.threads), jobs={"worker": 1}, threads_per_task=3)
    assert run.result() == [(1, 3)]


def test_the_warm_process_may_die(cluster: dtf.Cluster) -> None:
    def leave(_args: object, ctx: Any) -> None:
        ctx.log(str(daemon()))
        ctx.stop_requested.wait()

    run = until_running(cluster.run(leave, wait=False))
    pids = [e.pid for e in events(run) if isinstance(e, TaskChanged) and e.state is TaskState.RUNNING]
    psutil.Process(pids[0]).parent().kill()  # type: ignore[union-attr]
    run.wait(left_s())
    assert re.search(r"failed: the warm process on \S+ was killed \(SIGKILL\)$", run.info.message)
    for pid in [*pids, *(int(run.logs("worker", index)) for index in (0, 1))]:
        until_ended(pid)
    assert cluster.run(lambda _args, ctx: ctx.rank).result() == [0, 1]


def test_a_dask_worker_may_die(cluster: dtf.Cluster) -> None:
    def host(_args: object, ctx: Any) -> None:
        waits(None, ctx)

    run = until_running(cluster.run(host, wait=False))
    machine, shared = map(Path, connections.read("shared").directories)
    directories = [*machine.glob(f"{run.id}-*"), shared / run.id]
    assert [directory.is_dir() for directory in directories] == [True, True]
    address = cluster.info.hosts[0].address
    port = int(address.rsplit(":", 1)[1])
    (worker,) = (
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN
    )
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    run.wait(left_s())
    assert run.status == "failed"
    assert f"its host {paths.machine_name()} went away" in run.info.message
    for directory in directories:  # at once, not with the cluster
        until_removed(directory)
    assert cluster.run(lambda _args, ctx: ctx.rank).result() == [0, 1]


def test_the_run_directory_is_the_runs_own(cluster: dtf.Cluster) -> None:
    def leave(_args: object, ctx: Any) -> str:
        if ctx.is_chief:
            (ctx.checkpoint_dir / "one").write_text("1")
        return str(ctx.run_dir)

    run = cluster.run(leave)
    assert run.result() == [run.info.run_dir] * 2
    assert (Path(run.info.run_dir) / "checkpoints" / "one").read_text() == "1"
    assert run.checkpoints == []
