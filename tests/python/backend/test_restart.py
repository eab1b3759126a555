"""When tasks of a real cluster are killed or frozen, the run names them, and is restarted or fails."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import psutil
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.machine import paths
from jupyter_dtf.backend.machine.processes import stat_of
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.client.session import session
from jupyter_dtf.errors import RunFailed
from jupyter_dtf.schema.events import AnyEvent, Logged, Note, RunChanged
from jupyter_dtf.schema.run import TaskState

from .. import patience
from ..clusters import wait_for
from ..patience import left_s

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

NAMED_WITHIN_S = 5.0


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Two workers of one thread each."""
    with dtf.Cluster(jobs={"worker": 2}, name="restarts", threads_per_host=2) as shared:
        yield shared
    session().close()


def waits_in_the_first_attempt(_args: object, ctx: Any) -> dict[str, Any]:
    ctx.report(ctx.attempt, value=ctx.rank)
    (ctx.shared_dir / ctx.task).touch()
    ctx.log(f"here {ctx.attempt}")
    while ctx.attempt == 1:
        ctx.stop_requested.wait()
    here = {"attempt": ctx.attempt, "shared": sorted(path.name for path in ctx.shared_dir.iterdir())}
    return {**here, "spec": ctx.cluster_spec.as_dict(), "secret": ctx.secret}


def kills_itself(_args: object, ctx: Any) -> None:
    if ctx.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()


def events(run: dtf.Run) -> list[AnyEvent]:
    return [event for _seq, event in session().hub.events(run.id)]


def states(run: dtf.Run) -> list[str]:
    return [event.state.value for event in events(run) if isinstance(event, RunChanged)]


def notes(run: dtf.Run) -> list[Note]:
    return [event for event in events(run) if isinstance(event, Note)]


def until_here(run: dtf.Run, attempt: int = 1) -> dtf.Run:
    """Wait until the program of every task has logged that the attempt has begun."""

    def said() -> bool:
        assert not run.info.state.is_final, run
        lines = [(event.task, line) for event in events(run) if isinstance(event, Logged) for line in event.lines]
        return {task for task, line in lines if line == f"here {attempt}"} == {"worker:0", "worker:1"}

    patience.until(said, lambda: (run, events(run)))
    return run


def kill(run: dtf.Run, task: str, number: int = signal.SIGKILL) -> int:
    """Send a signal to the process of a task, and return its id."""
    (pid,) = [info.pid for info in run.info.tasks if info.task == task]
    os.kill(pid, number)
    return pid


def until_ended(*pids: int) -> None:
    patience.until(
        lambda: all((stat := stat_of(pid)) is None or stat.has_ended for pid in pids), lambda: [*map(stat_of, pids)]
    )


def nothing_is_left(run: dtf.Run, cluster: dtf.Cluster) -> None:
    """Wait until no process of a task and no directory of the run is left on this machine."""
    until_ended(*(task.pid for task in run.info.tasks if task.pid))
    token = connections.read(cluster.name).token
    roots = [paths.machine_dir(token), paths.shared_memory_dir(token)]
    patience.until(
        lambda: not [path for root in roots for path in root.glob(f"{run.id}*")],
        lambda: [path for root in roots for path in root.glob(f"{run.id}*")],
    )


# -- killed --------------------------------------------------------------------------------------------------------


def test_a_gang_is_started_again_with_everything_new(cluster: dtf.Cluster) -> None:
    run = until_here(cluster.run(waits_in_the_first_attempt, restart=dtf.Restart(max_restarts=2), wait=False))
    first = {task.task: (task.pid, task.endpoint) for task in run.info.tasks}
    kill(run, "worker:1")
    results = run.result(left_s())
    assert [result["attempt"] for result in results] == [2, 2]
    assert states(run) == ["launching", "running", "restarting", "running", "succeeded"]
    assert [task.attempt for task in run.info.tasks] == [1, 1]
    for task in run.info.tasks:
        assert task.pid != first[task.task][0]
        assert task.endpoint != first[task.task][1]
    assert results[0]["secret"] == results[1]["secret"]
    assert results[0]["spec"] == results[1]["spec"]
    assert all({*result["shared"]} <= {"worker:0", "worker:1"} for result in results)

    lost = next(note for note in notes(run) if note.title == "worker:1 died (SIGKILL)")
    assert (lost.level, lost.task) == ("warning", "worker:1")
    assert lost.text.startswith(f"In attempt 1 of 3, on {paths.machine_name()}.")
    again = next(note for note in notes(run) if note.title == "Restarted: attempt 2 of 3")
    assert again.text.endswith("s after worker:1 was lost")
    changes = [event.message for event in events(run) if isinstance(event, RunChanged)]
    assert changes[2:4] == ["worker:1 died (SIGKILL): attempt 2 of 3 begins", "attempt 2 of 3"]

    assert run.logs("worker", 1).splitlines() == ["here 1", "here 2"]
    found = run.metrics
    own = found[found.metric == "value"].sort_values(["task", "step"])
    assert own[["task", "step", "attempt"]].values.tolist() == [
        ["worker:0", 1.0, 0],
        ["worker:0", 2.0, 1],
        ["worker:1", 1.0, 0],
        ["worker:1", 2.0, 1],
    ]
    nothing_is_left(run, cluster)


def test_the_last_attempt_is_the_end_and_says_so(cluster: dtf.Cluster) -> None:
    with pytest.raises(RunFailed, match=r"worker:1 died \(SIGKILL\), in attempt 3 of 3"):
        cluster.run(kills_itself, restart=dtf.Restart(max_restarts=2), wait=False).result(left_s())
    run = cluster.runs[0]
    assert states(run).count("restarting") == 2
    assert [task.attempt for task in run.info.tasks] == [2, 2]
    nothing_is_left(run, cluster)


@pytest.mark.parametrize("restart", [None, False, dtf.Restart(max_restarts=0)])
def test_a_program_that_did_not_ask_for_it_ends_with_the_first_death(cluster: dtf.Cluster, restart: Any) -> None:
    run = until_here(cluster.run(waits_in_the_first_attempt, restart=restart, wait=False))
    kill(run, "worker:1")
    assert run.wait(left_s()).info.message == "worker:1 died (SIGKILL)"
    assert states(run) == ["launching", "running", "failed"]
    nothing_is_left(run, cluster)


@pytest.mark.parametrize("how", ["error", "exit", "_exit"])
def test_a_persons_own_error_is_not_tried_again(cluster: dtf.Cluster, how: str) -> None:
    def fails(how: str, ctx: Any) -> None:
        ctx.log(f"here {ctx.attempt}")
        if ctx.rank == 0:
            threading.Event().wait()
        if how == "error":
            raise ValueError("no luck")
        sys.exit(3) if how == "exit" else os._exit(3)

    run = cluster.run(fails, how, restart=dtf.Restart(), wait=False).wait(left_s())
    assert states(run)[-1] == "failed"
    assert "restarting" not in states(run)
    assert run.info.message.startswith("worker:1 ")
    if how == "error":
        assert run.info.message == "worker:1 failed: ValueError: no luck"
        with pytest.raises(RunFailed, match="ValueError: no luck"):
            run.result()
    nothing_is_left(run, cluster)


def test_stopping_a_run_that_is_being_started_again_stops_it(cluster: dtf.Cluster) -> None:
    run = until_here(cluster.run(waits_in_the_first_attempt, restart=dtf.Restart(max_restarts=9), wait=False))
    kill(run, "worker:0")
    run.wait_for(lambda info: info.state.value == "restarting" or info.state.is_final, left_s())
    run.stop(now=True)
    assert run.wait(left_s()).status == "stopped"
    nothing_is_left(run, cluster)
    assert cluster.run(lambda _args, ctx: ctx.attempt).result() == [1, 1]


def test_a_cluster_closes_while_a_run_is_being_started_again(no_process_left_by_module: None) -> None:
    with dtf.Cluster(jobs={"worker": 2}, name="closes", threads_per_host=2) as closing:
        run = until_here(closing.run(waits_in_the_first_attempt, restart=dtf.Restart(max_restarts=9), wait=False))
        kill(run, "worker:0")
        run.wait_for(lambda info: info.state.value == "restarting" or info.state.is_final, left_s())
        pids = [task.pid for task in run.info.tasks if task.pid]
    assert run.status == "stopped"
    until_ended(*pids, *(task.pid for task in run.info.tasks if task.pid))


def test_a_dask_worker_that_dies_takes_its_run_to_where_there_are_hosts(no_process_left_by_module: None) -> None:
    with dtf.Cluster(jobs={"worker": 2}, name="two-hosts", hosts=2, threads_per_host=1) as two:
        wait_for(two, lambda info: len(info.hosts) == 2)
        run = until_here(two.run(waits_in_the_first_attempt, restart=dtf.Restart(), wait=False))
        hosts = {task.task: task.host for task in run.info.tasks}
        assert len(set(hosts.values())) == 2
        before = {task.task: task.pid for task in run.info.tasks}
        dask_worker(two, hosts["worker:1"]).kill()
        assert [result["attempt"] for result in run.result(left_s())] == [2, 2]
        assert run.info.message == ""
        lost = [note.title for note in notes(run) if "its host" in note.title]
        assert lost == [f"worker:1 failed: its host {hosts['worker:1']} went away"]
        until_ended(*before.values())


def dask_worker(cluster: dtf.Cluster, host: str) -> psutil.Process:
    """Return the process of the Dask worker with this name."""
    (found,) = [info for info in cluster.info.hosts if info.name == host]
    port = int(found.address.rpartition(":")[2])
    for process in psutil.Process(connections.read(cluster.name).pid).children(recursive=True):
        if any(each.laddr.port == port for each in process.net_connections("tcp") if each.status == "LISTEN"):
            return process
    raise AssertionError(f"no process listens at {found.address}")


# -- frozen --------------------------------------------------------------------------------------------------------


def test_a_frozen_worker_of_a_training_is_named_in_time_and_the_training_goes_on(cluster: dtf.Cluster) -> None:
    import keras

    def hold(batch: int, logs: object) -> None:
        from jupyter_dtf.backend.task.context import current

        ctx = current()
        if ctx.attempt == 1 and batch == 2:
            ctx.log("here 1")
            while not ctx.going_over.is_called:
                ctx.stop_requested.wait(0.01)

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    x, y = np.ones((64, 4), "float32"), np.ones((64, 1), "float32")
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=hold)
    run = cluster.fit(
        model, x, y, epochs=2, batch_size=8, callbacks=[callback], verbose=0, threads_per_task=1, wait=False
    )
    run.wait_for(lambda info: info.state.is_final or "here 1" in run.logs(), left_s())
    kill(run, "worker:1", signal.SIGSTOP)
    at = time.time()
    run.result(left_s())
    (lost,) = [note for note in notes(run) if note.title.startswith("worker:1 has been stopped (SIGSTOP) for 3 s")]
    assert lost.text.endswith("worker:0 continues; worker:1 is restarted: attempt 2 of 4")
    assert lost.time - at < NAMED_WITHIN_S
    assert (lost.level, lost.task) == ("warning", "worker:1")
    (cost,) = [note for note in notes(run) if note.title.startswith("Training continues after step ")]
    assert cost.title in (
        "Training continues after step 3",
        "Training continues after step 4",
    )  # worker:1 may have contributed to step 4
    assert cost.text.endswith("s after worker:1 was lost")
    assert states(run) == ["launching", "running", "restarting", "running", "succeeded"]
    (reason,) = [event.message for event in events(run) if isinstance(event, RunChanged) and "begins" in event.message]
    assert reason.startswith("worker:1 has been stopped (SIGSTOP) for 3 s, on host ")
    assert reason.endswith(": attempt 2 of 4 begins")
    assert len(run.history["loss"]) == 2
    nothing_is_left(run, cluster)


def test_a_training_that_is_stalled_is_started_again_without_whom_it_waited_for(cluster: dtf.Cluster) -> None:
    import keras

    def hold(batch: int, logs: object) -> None:
        from jupyter_dtf.backend.task.context import current

        if current().attempt == 1 and batch == 5:
            threading.Event().wait()

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    x, y = np.ones((64, 4), "float32"), np.ones((64, 1), "float32")
    run = cluster.fit(
        model,
        x,
        y,
        batch_size=8,
        callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=hold)],
        verbose=0,
        threads_per_task=1,
        restart=dtf.Restart(stalled_after=3.0),
        wait=False,
    )
    run.result(left_s())
    assert states(run) == ["launching", "running", "restarting", "running", "succeeded"]
    named = next(note.title for note in notes(run) if "has completed no step for" in note.title)
    assert named.endswith(f"s and uses no CPU time, and the others wait, on host {paths.machine_name()}")


def test_a_frozen_task_ends_a_run_that_does_not_restart(cluster: dtf.Cluster) -> None:
    run = until_here(cluster.run(waits_in_the_first_attempt, wait=False))
    pid = kill(run, "worker:0", signal.SIGSTOP)
    assert run.wait(left_s()).status == "failed"
    assert run.info.message.startswith("worker:0 has been stopped (SIGSTOP) for 3 s, on host ")
    assert {task.task: task.state for task in run.info.tasks} == {
        "worker:0": TaskState.FAILED,
        "worker:1": TaskState.STOPPED,
    }
    until_ended(pid)
    nothing_is_left(run, cluster)


def test_a_task_that_goes_on_in_time_is_left_alone(cluster: dtf.Cluster) -> None:
    run = until_here(cluster.run(waits_in_the_first_attempt, wait=False))
    pid = kill(run, "worker:0", signal.SIGSTOP)
    patience.until(lambda: (stat := stat_of(pid)) is not None and stat.is_stopped, "it is stopped")
    os.kill(pid, signal.SIGCONT)
    kill(run, "worker:1", signal.SIGSTOP)  # this is noticed, later than worker:0 would have been
    assert run.wait(left_s()).info.message.startswith("worker:1 has been stopped")


def test_a_frozen_task_is_ended_though_the_warm_process_is_frozen_too(cluster: dtf.Cluster) -> None:
    run = until_here(cluster.run(waits_in_the_first_attempt, wait=False))
    (pid,) = [task.pid for task in run.info.tasks if task.task == "worker:1"]
    stat = stat_of(pid)
    assert stat is not None
    os.kill(stat.parent, signal.SIGSTOP)
    os.kill(pid, signal.SIGSTOP)
    assert run.wait(left_s()).status == "failed"
    assert run.info.message.startswith("worker:1 has been stopped (SIGSTOP) for 3 s, on host ")
    until_ended(pid)
    assert cluster.run(lambda _args, ctx: ctx.attempt).result() == [1, 1]


def test_the_directory_of_a_run_stays_over_attempts(cluster: dtf.Cluster) -> None:
    def counts(_args: object, ctx: Any) -> int:
        path = Path(ctx.checkpoint_dir) / f"step-{ctx.rank}"
        step = int(path.read_text()) if path.exists() else 0
        path.write_text(str(step + 1))
        dtf.barrier()
        if step < 2 and ctx.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if step < 2:
            threading.Event().wait()
        return step

    run = cluster.run(counts, restart=dtf.Restart(max_restarts=2), wait=False)
    assert run.result(left_s()) == [2, 2]
    assert "attempt 3 of 3" in [event.message for event in events(run) if isinstance(event, RunChanged)]
