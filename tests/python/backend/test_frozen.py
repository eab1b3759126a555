"""Processes that are stopped (SIGSTOP) while others wait for them are detected, reported, and ended on request."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import cloudpickle
import psutil
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.machine import cluster_processes, paths
from jupyter_dtf.backend.machine.processes import Stat, stat_of
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.api import ClusterInfo
from jupyter_dtf.schema.events import Note

from .. import patience
from ..patience import left_s

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])


def waits(_args: object, ctx: Any) -> int:
    ctx.log("here")
    ctx.stop_requested.wait()
    return int(ctx.rank)


def stays(_args: object, ctx: Any) -> None:
    """Wait forever, without reacting to a request to stop."""
    ctx.log("here")
    threading.Event().wait()


def rank(_args: object, ctx: Any) -> int:
    return int(ctx.rank)


def begin(cluster: dtf.Cluster, program: Any = waits) -> dtf.Run:
    """Start a run, and wait until it is running."""
    run = cluster.run(program, wait=False)
    run.wait_for(lambda info: info.state.value == "running" or info.state.is_final, left_s())
    assert run.status == "running", run
    return run


def until(cluster: str, condition: Callable[[ClusterInfo], bool]) -> ClusterInfo:
    """Wait until what this process knows of a cluster satisfies a condition, and return it."""
    seen = threading.Event()
    view = session()
    unsubscribe = view.do(lambda fleet: fleet.subscribe(seen.set))
    try:
        while not condition(info := view.do(lambda fleet: fleet.cluster(cluster))):
            assert seen.wait(left_s()), info
            seen.clear()
        return info
    finally:
        view.do(lambda fleet: unsubscribe())


def processes(cluster: str) -> dict[str, int]:
    """Return the process ids of a cluster by kind, one of each kind."""
    connection = connections.read(cluster)
    found = {"cluster": connection.pid}
    for pid in cluster_processes.members(connection.token):
        words = " ".join(psutil.Process(pid).cmdline())
        stat = stat_of(pid)
        assert stat is not None
        if "backend.task.warm" in words and stat.session == pid:
            found["warm"] = pid
        elif "spawn_main" in words or "Dask Worker" in words or "forkserver" in words:
            found["worker"] = pid
    return found


def wait_for_state(pids: list[int], condition: Callable[[Stat | None], bool]) -> None:
    """Poll the kernel until the state of each of these processes, which are not our children, satisfies a condition."""
    patience.until(lambda: all(condition(stat_of(pid)) for pid in pids), lambda: [stat_of(pid) for pid in pids])


def freeze(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    wait_for_state([pid], lambda stat: stat is not None and stat.is_stopped)


def wait_for_end(pids: list[int]) -> None:
    """Wait until these processes have ended. A zombie counts as ended."""
    wait_for_state(pids, lambda stat: stat is None or stat.has_ended)


def test_a_stopped_warm_process_is_told_of_and_ended_with_the_run(cluster: dtf.Cluster) -> None:
    run = begin(cluster, stays)
    warm = processes("shared")["warm"]
    freeze(warm)
    told = until("shared", lambda info: bool(info.warnings)).warnings
    assert "The warm process on" in told[0]
    assert "does not respond" in told[0]
    run.stop(now=True)
    assert run.wait(left_s()).status == "stopped"
    assert {task.signal for task in run.info.tasks} <= {"SIGTERM", "SIGKILL"}, run.info.tasks
    wait_for_end([warm, *(task.pid for task in run.info.tasks)])
    assert cluster.run(rank).result() == [0, 1]
    assert cluster.info.warnings == []


def test_a_run_that_finds_a_stopped_warm_process_has_another_one_started(cluster: dtf.Cluster) -> None:
    assert cluster.run(rank).result() == [0, 1]
    freeze(processes("shared")["warm"])
    assert cluster.run(rank, wait=False).result(left_s()) == [0, 1]


def test_a_stopped_dask_worker_is_told_of_and_ended_with_the_run(cluster: dtf.Cluster) -> None:
    run = begin(cluster)
    worker = processes("shared")["worker"]
    freeze(worker)
    info = until("shared", lambda info: bool(info.warnings))
    assert info.warnings[0].startswith(f"The Dask worker {paths.machine_name()} does not respond")
    run.stop()
    assert run.wait(left_s()).status == "stopped"
    notes = [event.title for _seq, event in session().hub.events(run.id) if isinstance(event, Note)]
    assert f"Host {paths.machine_name()} does not respond" in notes
    messages = {task.message for task in run.info.tasks}
    assert f"its host {paths.machine_name()} did not respond and was killed" in messages
    wait_for_end([worker, *(task.pid for task in run.info.tasks)])
    assert cluster.run(rank).result() == [0, 1]
    assert cluster.info.warnings == []


@pytest.mark.parametrize(("which", "becomes"), [("worker", "stopped"), ("warm", "stopped"), ("cluster", "lost")])
def test_a_cluster_with_a_stopped_process_closes(no_process_left_by_module: None, which: str, becomes: str) -> None:
    with dtf.Cluster(jobs={"worker": 1}, name=f"stops-{which}") as cluster:
        run = begin(cluster)
        known = processes(cluster.name)
        freeze(known[which])
        cluster.close(15)
    assert run.status == becomes
    wait_for_end([*known.values(), run.info.tasks[0].pid])
