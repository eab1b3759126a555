"""Plays a round: starts a run, does something to one of its processes at the right moment, and checks the outcome.

Moments are recognized by the run's events, by files that appear, and by information from the kernel, never by a clock.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jupyter_dtf as dtf
from jupyter_dtf.backend.viewer import connections
from jupyter_dtf.client.fit_run import FitRun
from jupyter_dtf.client.session import session
from jupyter_dtf.errors import NotFound
from jupyter_dtf.schema.api import ClusterInfo
from jupyter_dtf.schema.events import Note
from jupyter_dtf.schema.run import RunInfo, RunState

from .. import patience
from ..clusters import wait_until
from . import evidence, processes, programs
from .outcomes import TO_GO, has_defined_weights, promised
from .schedule import APART, TASKS, Round

TASK_NAMES = {"chief": "worker:0", "worker": "worker:1", "ps": "ps:0"}
HAVE_STEPS_ON_ALL = ("allreduce", "ps, sync", "ps, async", "program")
"""Strategies with which every worker executes each step itself, so that every worker is held."""
WITHIN_S = 90.0
"""The time limit of a round, in seconds, for machines of any speed."""


class Done(NamedTuple):
    """The outcome of a round. ``wrong`` is empty if the round went as promised."""

    this: Round
    status: str
    seconds: float
    wrong: list[str]


class Missed(AssertionError):
    """The run ended before the moment of the round came."""


class Rounds:
    """A player of rounds, which uses the same cluster until it ends. Must be closed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._cluster: dtf.Cluster | None = None
        self._expected: dict[str, list[Any]] = {}

    def close(self) -> list[str]:
        """End the cluster. Return what is left of it."""
        if self._cluster is None:
            return []
        cluster, self._cluster = self._cluster, None
        try:
            token, where = connections.read(cluster.name).token, processes.directories(cluster)
        except NotFound:  # the cluster has ended on its own
            return []
        cluster.close()
        return _left(token, where)

    def play(self, this: Round) -> Done:
        """Play one round. Errors are part of its outcome; only an interrupt is raised."""
        begun = time.monotonic()
        patience.begin(WITHIN_S)
        status, wrong = "broken", list[str]()
        try:
            status, wrong = self._play(this)
        except Exception as error:  # the other rounds are still played
            wrong = [f"{type(error).__name__}: {error}"]
        if status == "broken" or not promised(this).cluster_lives:
            patience.begin(WITHIN_S)
            try:
                wrong += [f"left of the cluster: {each}" for each in self.close()]
            except Exception as error:
                wrong.append(f"the cluster does not close: {type(error).__name__}: {error}")
        return Done(this, status, time.monotonic() - begun, wrong)

    def _play(self, this: Round) -> tuple[str, list[str]]:
        cluster = self._ready()
        expected = self._expects(this.strategy) if has_defined_weights(this) else []
        where = processes.directories(cluster)
        with _started(cluster, this, self._directory) as (run, go):
            deed = Deed(this, cluster, run, go)
            touched = deed.do()
            self._until_ended(this, run)
            deed.until_gone()
        events = [event for _, event in session().hub.events(run.id)]
        _info, numbered = evidence.stored(run)
        wrong = [
            *evidence.wrong_in_log(numbered),
            *evidence.wrong_in_story(this, run, events, touched),
            *evidence.wrong_in_points(this, run, numbered),
            *evidence.wrong_in_remains(run, events, where),
        ]
        if run.status == "succeeded":
            wrong += evidence.wrong_in_weights(this, _weights(run), expected)
        return run.status, wrong

    def _until_ended(self, this: Round, run: dtf.Run) -> None:
        if promised(this).needs_stop:
            run.stop()
        run.wait(patience.left_s())

    def _ready(self) -> dtf.Cluster:
        if self._cluster is None:
            self._cluster = dtf.Cluster(
                jobs={"worker": 2, "ps": 1}, name="chaos", hosts=2, threads_per_host=1, grace_s=30.0
            )
        self._cluster.wait_ready(patience.left_s())
        wait_until(self._cluster, lambda info: len(info.hosts) == 2)
        return self._cluster

    def _expects(self, strategy: str) -> list[Any]:
        """Return the weights of an undisturbed run."""
        if strategy not in self._expected:
            run = programs.start(self._ready(), strategy, 0, self._directory / "nowhere")
            run.wait(patience.left_s())
            run.raise_for_state()
            self._expected[strategy] = _weights(run)
        return self._expected[strategy]


class Deed:
    """The action of a round on its run."""

    def __init__(self, this: Round, cluster: dtf.Cluster, run: dtf.Run, go: Path) -> None:
        self._this = this
        self._cluster = cluster
        self._run = run
        self._go = go
        self._leaves: set[int] = set()

    def do(self) -> set[str]:
        """Wait for the moment, and act. Return the name of the task that was affected, if it was a task."""
        self._until_moment()
        name = TASK_NAMES.get(self._this.whom, "")
        match self._this.what:
            case "stop":
                self._run.stop()
            case "kill":
                processes.kill(self._pid())
            case "freeze":
                self._freeze(self._pid())
            case "notice":
                self._leaves = {self._pid()}
                processes.announce(*self._leaves)
                self._until_told()
            case "pause":
                pid = self._pid()
                self._freeze(pid)
                processes.thaw(pid)
        promise = promised(self._this)
        if not (self._this.is_held and (promise.restarts[0] or promise.ends != "succeeded")):
            self._go.touch()  # otherwise, what is dying would race with the last step
        return {name} if name else set()

    def until_gone(self) -> None:
        """Wait for the end of a host whose machine is about to be taken away: it ends when it has no more tasks."""
        patience.until(
            lambda: not processes.living(self._leaves), lambda: f"the end of {processes.living(self._leaves)}"
        )

    def _until_told(self) -> None:
        """Wait until the run knows that its host is about to go away. The run then writes a checkpoint, so it must not
        be held any longer.
        """

        def is_told(_info: RunInfo) -> bool:
            notes = [event for _, event in session().hub.events(self._run.id) if isinstance(event, Note)]
            return any(re.fullmatch(TO_GO, note.title) for note in notes)

        if self._this.when != "a stop":
            self._run.wait_for(lambda info: info.state.is_final or is_told(info), patience.left_s())

    def _freeze(self, pid: int) -> None:
        """Freeze a process. If other processes monitor it, wait until they have noticed: until then, it could just be
        busy.
        """
        processes.freeze(pid)
        words = {"warm": "The warm process", "host": "The Dask worker"}.get(self._this.whom, "")

        def is_seen(info: ClusterInfo) -> bool:
            if self._this.whom == "cluster":
                return info.silent_s > 0
            return any(each.startswith(words) for each in info.warnings) or not processes.living({pid})

        if self._this.whom in ("warm", "host", "cluster") and self._this.when != "a stop":
            wait_until(self._cluster, is_seen)

    # -- the moment ---------------------------------------------------------------------------------------------

    def _until_moment(self) -> None:
        match self._this.when:
            case "the start":
                self._until(lambda info: self._is_there(info, 0))
            case "a restart":
                self._until_held()
                processes.kill(self._pid_of(TASK_NAMES[self._victim()]))
                self._go.touch()
                self._until(self._is_again)
            case "a checkpoint":
                self._until_held()
                self._go.touch()
                self._until_checkpoint()
            case "a stop":
                self._until_held()
                self._run.stop()
                self._until(lambda info: info.state is RunState.STOPPING)
            case _:
                self._until_held()
                if not self._this.is_held:
                    self._go.touch()

    def _victim(self) -> str:
        """Return the task whose death causes the restart. It is not the one that the round is about."""
        if self._this.strategy in APART:  # the death of a worker does not cause one
            return "ps" if self._this.whom == "chief" else "chief"
        return "chief" if self._this.whom == "worker" else "worker"

    def _is_there(self, info: RunInfo, attempt: int) -> bool:
        """Return whether the task that the round is about has a process in this attempt. For other processes, return
        whether the run is being launched.
        """
        name = TASK_NAMES.get(self._this.whom)
        if name is None:
            return info.state is RunState.LAUNCHING
        tasks = [task for task in info.tasks if task.task == name and task.attempt == attempt]
        return any(task.pid and not task.state.is_final for task in tasks)

    def _is_again(self, info: RunInfo) -> bool:
        if self._this.whom not in TASKS:
            return info.state is RunState.RESTARTING
        return self._is_there(info, 1)

    def _until_held(self) -> None:
        """Wait until all tasks that are held in this round have reached their step."""
        wanted = {"worker:0", "worker:1"} if self._this.strategy in HAVE_STEPS_ON_ALL else {"worker:0"}

        def are_held(_info: RunInfo) -> bool:
            notes = [event for _, event in session().hub.events(self._run.id) if isinstance(event, Note)]
            return wanted <= {note.task for note in notes if note.title == programs.HELD}

        self._until(are_held)

    def _until_checkpoint(self) -> None:
        """Wait until a checkpoint is being written."""
        directory = Path(self._run.info.run_dir) / "checkpoints"
        while True:
            with contextlib.suppress(FileNotFoundError), os.scandir(directory) as entries:
                if any(entry.name.startswith(".writing-") for entry in entries):
                    return
            if self._run.info.state.is_final:
                raise Missed("the run has ended before a checkpoint was seen to be written")

    def _until(self, condition: Callable[[RunInfo], bool]) -> None:
        info = self._run.wait_for(lambda info: info.state.is_final or condition(info), patience.left_s())
        if info.state.is_final and not condition(info):
            raise Missed(f"the run has ended before its moment came: {info.state.value} {info.message!r}")

    # -- the process --------------------------------------------------------------------------------------------

    def _pid(self) -> int:
        match self._this.whom:
            case "warm":
                return processes.warm_process(self._cluster)
            case "host":
                (host,) = {task.host for task in self._run.info.tasks if task.task == "worker:1"}
                return processes.host_process(self._cluster, host)
            case "cluster":
                return connections.read(self._cluster.name).pid
            case "client":
                return int(self._go.with_suffix(".client").read_text())
            case task:
                return self._pid_of(TASK_NAMES[task])

    def _pid_of(self, name: str) -> int:
        (pid,) = [task.pid for task in self._run.info.tasks if task.task == name]
        return pid


@contextlib.contextmanager
def _started(cluster: dtf.Cluster, this: Round, directory: Path) -> Iterator[tuple[dtf.Run, Path]]:
    """Start the run of a round. Yield it, with the file that releases it, which is always created at the end."""
    go = directory / f"go-{os.getpid()}-{time.monotonic_ns()}"
    try:
        if this.whom == "client":
            with _client(cluster, this, go) as run:
                yield run, go
        else:
            yield programs.start(cluster, this.strategy, this.step, go), go
    finally:
        go.touch()


@contextlib.contextmanager
def _client(cluster: dtf.Cluster, this: Round, go: Path) -> Iterator[dtf.Run]:
    """Start a run in a separate process, and yield it."""
    command = [sys.executable, "-m", "tests.python.chaos.programs", cluster.name, str(this.step), str(go)]
    said = go.with_suffix(".stderr")
    with said.open("w") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None and process.stdin is not None
    try:
        run_id = process.stdout.readline().strip()
        assert run_id, f"the client has started no run: {said.read_text()}"
        go.with_suffix(".client").write_text(str(process.pid))
        patience.until(lambda: run_id in {info.id for info in session().hub.runs()}, f"the run {run_id} is known here")
        yield dtf.run(run_id)
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def _weights(run: Any) -> list[Any]:
    return list(run.model.get_weights() if isinstance(run, FitRun) else run.result(patience.left_s()))


def _left(token: str, where: tuple[Path, Path]) -> list[str]:
    """Return what is left of a cluster after all of it has had the time to end."""
    with contextlib.suppress(AssertionError):
        patience.until(lambda: not processes.left_of(token, where), "its end")
    return processes.left_of(token, where)
