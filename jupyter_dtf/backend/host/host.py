"""The WorkerPlugin that makes a Dask worker a host: it starts tasks through the warm process and forwards events."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin

from ...errors import Unavailable
from ...schema import private_files
from ...schema.disk_space import refusal
from ...schema.hosts import host_name
from ...schema.launch import ProfileOrder, TaskSpec, of_task_id
from ...schema.operations import scoped
from ..kinds.base import NOTICE
from ..kinds.dask_http import silence
from ..machine import cluster_processes, paths
from ..machine.gpus import read_gpus, shortage
from ..machine.oom import OomWatch
from ..machine.shared_directory import answer, read_word
from ..machine.versions import read_versions
from ..machine.visibility_mark import Mark
from .host_checks import HostChecks
from .host_load import HostLoad
from .host_report import HostReport
from .host_run import ADVICE, GIVEN_UP, HostRun
from .host_task import HostTask
from .partition_feeding import Feeding
from .preemption_notice import Notice
from .task_exits import TaskExits
from .task_watch import LOOK_S, Gaps
from .warm_keeper import WarmKeeper

logger = logging.getLogger(__name__)

_LOOK_S = 0.5


class Host(WorkerPlugin):
    """Runs tasks of the cluster ``token`` on this Dask worker. ``runs`` is the mark of the directory that contains the
    run directories, by which the host determines whether it sees them.

    A nonempty ``scope`` means that the worker is external: the names of operations include the scope, and teardown
    leaves nothing behind.
    """

    name = "jupyter_dtf"

    def __init__(self, token: str, cluster: str, runs: Mark, scope: str = "") -> None:
        self._token = token
        self._cluster = cluster
        self._mark = runs
        self._scope = scope

    @property
    def made_of(self) -> dict[str, Any]:
        """Plain data from which ``made`` creates an equal host."""
        return {"token": self._token, "cluster": self._cluster, "runs": list(self._mark), "scope": self._scope}

    @classmethod
    def made(cls, of: dict[str, Any]) -> Host:
        return cls(**{**of, "runs": Mark(*of["runs"])})

    # -- lifetime -----------------------------------------------------------------------------------------------

    async def setup(self, worker: Worker) -> None:
        if not self._scope:
            silence(worker)
        self._worker = worker
        self._is_gone = False
        self._directory = paths.machine_dir(self._token)
        self._shared = paths.shared_memory_dir(self._token)
        self._claims = [cluster_processes.claim(directory) for directory in (self._directory, self._shared)]
        self._sees_runs = self._mark.is_seen
        self._runs: dict[str, HostRun] = {}
        self._oom = OomWatch()
        self._warm = WarmKeeper(
            self._directory,
            self._shared,
            self._oom,
            on_message=self._on_warm,
            on_lost=self._on_warm_lost,
            on_change=self._tell,
        )
        self._notice = Notice(worker, has_tasks=self._has_tasks, tell=self._tell)
        self._load = HostLoad()
        self._exits = TaskExits(self._runs, self._warm, self._oom, self._load, self._tell_end)
        versions = read_versions()
        self._feeding = Feeding(worker, self._directory, self._scope)
        self._feeding.start()
        self._checks = HostChecks(self._token, versions, self._warm, lambda: self._address)
        self._report = HostReport(
            worker,
            self._runs,
            versions,
            warm=self._warm,
            load=self._load,
            notice=self._notice,
            checks=self._checks,
            send=self._send,
        )
        operations: dict[str, Callable[..., Any]] = {
            "dtf_prepare": self.prepare,
            "dtf_reserve": self.reserve,
            "dtf_survivors": self.survivors,
            "dtf_sees": self.sees,
            "dtf_put": self.put,
            "dtf_launch": self.launch,
            "dtf_stop": self.stop,
            "dtf_save": self.save,
            "dtf_saves": self.saves,
            "dtf_profile": self.profile,
            "dtf_without": self.without,
            "dtf_work_done": self.work_done,
            "dtf_kill": self.kill,
            "dtf_end_frozen": self.end_frozen,
            "dtf_release": self.release,
            NOTICE: self._notice.give,
            "dtf_check": self._checks.check,
            "dtf_probe": self._checks.probe,
            "dtf_dial": self._checks.dial,
            "dtf_measure": self._checks.measure,
            "dtf_rows": self._feeding.partitions.answer,
        }
        self._handlers = {scoped(name, self._scope): handler for name, handler in operations.items()}
        worker.handlers.update(self._handlers)
        self._warm.start()
        self._sampling = asyncio.create_task(self._report.sample())
        self._watching = asyncio.create_task(self._watch_tasks())
        self._notice.listen()

    async def teardown(self, worker: Worker) -> None:
        self._notice.close()
        for name in self._handlers:
            worker.handlers.pop(name, None)
        self._sampling.cancel()
        self._watching.cancel()
        self._checks.close()
        await self._feeding.close()
        await self._warm.close()
        for run_id in list(self._runs):
            self._drop(run_id)
        self._is_gone = True  # from here on, nothing is sent: the scheduler may no longer know the operations
        self._oom.close()
        for claim in self._claims:
            os.close(claim)
        if self._scope:  # no other process cleans up on this machine
            for directory in (self._directory, self._shared):
                await asyncio.to_thread(cluster_processes.sweep_one, directory)

    def _on_warm(self, message: dict[str, Any]) -> None:
        task = self._task(message["id"]) if "id" in message else None
        match message["op"]:
            case "forked" if task is not None:
                task.is_forked(message["pid"], lambda: self._exits.gone(task))
            case "forked":  # late: the run was abandoned while the warm process did not respond
                self._warm.kill(message["id"], signal.SIGKILL)
            case "not_forked" if task is not None:
                task.is_not_forked(f"{task.spec.task} could not be started: {message['message']}")
            case "exited":
                self._exits.exited(message["id"], message["status"])

    def _on_warm_lost(self, why: str) -> None:
        self._exits.all_killed(why)

    # -- requests of the controller -----------------------------------------------------------------------------

    def prepare(self, threads: int, count: int) -> None:
        """Prepare spare processes for ``count`` tasks with ``threads`` threads each."""
        if not read_gpus():  # a spare process would start TensorFlow on GPUs that are not assigned to it
            self._warm.prepare(threads, count)

    def survivors(self, run_id: str) -> list[str]:
        """Return the names of a run's tasks on this host with processes that can continue in the run's next attempt."""
        return [task.spec.task for task in self._alive(self._runs.get(run_id)) if task.can_go_over]

    async def reserve(
        self, run_id: str, places: list[str], ready: bool, attempt: int = 0, survivors: list[str] | None = None
    ) -> dict[str, str]:
        """Bind a port for each place. The ports stay bound until the run is released or reserves ports again.

        Args:
            run_id: The id of the run.
            places: Names, each of which gets a port.
            ready: Whether to wait until tasks can be forked.
            attempt: The attempt that the run is about to begin.
            survivors: Tasks that continue in this attempt; all other tasks of the run on this host are killed.

        Returns:
            The endpoint of each port, keyed by place.

        Raises:
            Unavailable: If a survivor cannot continue, no task can be forked, the machine is about to go away, or the
                run was released in the meantime.
        """
        self._refuse_if_leaving()
        before, kept = self._part(run_id, survivors or [])
        # Named by attempt, because another host on this machine may still be cleaning up the previous one.
        name = f"{run_id}.{attempt}" if attempt else run_id
        # Named by process id, because several hosts on this machine may have tasks of the run.
        run = HostRun(self._directory / f"{name}-{os.getpid()}", self._shared / name, before)
        run.tasks.update(kept)
        self._runs[run_id] = run
        endpoints = run.reserve(places, self._address)
        if ready:
            await self._warm.usable(may_end=lambda: not self._has_tasks())
        elif self._warm.failure:
            raise Unavailable(self._warm.failure)
        if self._runs.get(run_id) is not run:
            raise Unavailable(GIVEN_UP)
        return endpoints

    def sees(self, directory: str, challenge: str) -> str:
        """Return the answer to a challenge, which proves that this host can read the secret in a directory."""
        return answer(read_word(directory), challenge)

    async def put(self, run_id: str, at: int, data: bytes) -> tuple[str, str]:
        """Store a chunk of the run's program. Returns its directory and the secret in it, as `HostRun.take` does."""
        if (run := self._runs.get(run_id)) is None:
            raise Unavailable(GIVEN_UP)
        return await asyncio.to_thread(run.take, at, data)

    async def launch(self, run_id: str, specs: list[bytes], payload: bytes = b"", program: str = "") -> dict[str, str]:
        """Fork the tasks of a program. Tasks that ``reserve`` has kept as survivors join this attempt instead.

        Args:
            run_id: The id of the run.
            specs: The encoded ``TaskSpec`` of each task.
            payload: The program, unless it is already in a file here.
            program: The path of a program file that is already here.

        Returns:
            The process id of each task, keyed by the task's name.

        Raises:
            Unavailable: If a task could not be started.
        """
        self._refuse_if_leaving()
        if (run := self._runs.get(run_id)) is None:
            raise Unavailable(GIVEN_UP)
        path = Path(program) if program else run.directory / "payload"
        try:
            private_files.make_dir(run.directory)
            if payload:
                await asyncio.to_thread(private_files.write_file, path, payload)
            if self._runs.get(run_id) is not run:
                raise Unavailable(GIVEN_UP)
            shared = private_files.own_dir(run.shared)
            gpus = read_gpus()
            for data in specs:
                spec = msgspec.json.decode(data, type=TaskSpec)
                if spec.joins and (task := run.tasks.get(spec.task)) is not None:
                    self._go_over(run, task, spec, shared)
                else:
                    spec.gpu_shortage = shortage(gpus, spec.visible_gpus, spec.gpu_memory_bytes)
                    self._fork(run, spec, path, shared)
        except OSError as error:
            needed = len(payload) + sum(map(len, specs))
            raise Unavailable(refusal(run.directory, "The program", error, needed=needed, advice=ADVICE)) from None
        forked = asyncio.gather(*(task.forked for task in run.tasks.values()))
        while not (await asyncio.wait({forked}, timeout=_LOOK_S))[0]:
            if self._warm.is_silent:
                why = self._warm.warnings[0]
                if not any(other.alive for other in self._runs.values() if other is not run):
                    self._warm.end()  # also kills the tasks that it forked for this gang; a new process is started
                raise Unavailable(why)
        pids = forked.result()
        return {name: str(pid) for name, pid in zip(run.tasks, pids, strict=True)}

    def _refuse_if_leaving(self) -> None:
        if self._notice.why:
            raise Unavailable(f"Its machine is going away ({self._notice.why})")

    def _go_over(self, run: HostRun, task: HostTask, spec: TaskSpec, shared: Path) -> None:
        if task.id in run.ended or not task.can_go_over:
            raise Unavailable(f"{spec.task} has ended in the meantime")
        spec.payload, spec.run_dir, spec.task_dir = task.spec.payload, task.spec.run_dir, task.spec.task_dir
        spec.shared_dir, spec.feed = str(shared), str(self._feeding.path)
        task.go_over(spec)

    def _fork(self, run: HostRun, spec: TaskSpec, program: Path, shared: Path) -> None:
        spec.payload = str(program)
        if not self._sees_runs:
            spec.run_dir = str(paths.runs_dir() / spec.run_id)
        spec.shared_dir, spec.feed = str(shared), str(self._feeding.path)
        name = spec.task.replace(":", "-")
        # If the task had another process before, the directory of that process may hold its outcome.
        spec.task_dir = str(run.directory / (f"{name}.{spec.attempt}" if spec.task in run.tasks else name))
        spec_path = private_files.make_dir(Path(spec.task_dir)) / "spec.json"
        private_files.write_file(spec_path, msgspec.json.encode(spec))
        tell = partial(self._tell_event, spec.run_id)
        tell_ends = partial(self._tell_program_end, spec.run_id, spec.task)
        task = HostTask(spec, spec.id, tell, tell_ends, keeps_output=self._sees_runs)
        run.tasks[spec.task] = task
        self._warm.fork(task.id, spec_path, task.descriptors, spec.threads if spec.may_be_spare else 0)
        task.hand_over()

    def stop(self, run_id: str) -> None:
        """Ask the run's tasks to stop."""
        run = self._runs.get(run_id)
        for task in self._alive(run):
            task.ask_to_stop()

    def save(self, run_id: str) -> None:
        """Ask the run's tasks to write a checkpoint and continue."""
        for task in self._alive(self._runs.get(run_id)):
            task.ask_for_checkpoint()

    def saves(self, run_id: str) -> bool:
        """Return whether one of the run's tasks reported in its last heartbeat that it is preparing or writing a
        checkpoint.
        """
        return any(task.beat.saves for task in self._alive(self._runs.get(run_id)))

    def profile(self, run_id: str, order: bytes) -> None:
        """Ask the run's tasks to trace steps. ``order`` is a ``ProfileOrder`` as JSON. Raises OSError if it cannot be
        written.
        """
        told = msgspec.json.decode(order, type=ProfileOrder)
        for task in self._alive(self._runs.get(run_id)):
            task.profile(told)

    def without(self, run_id: str, tasks: list[str]) -> None:
        """Notify the run's tasks of the lost tasks that currently cannot be restarted on any host. Raises OSError if
        the list cannot be written.
        """
        for task in self._alive(self._runs.get(run_id)):
            task.tell_without(tasks)

    def work_done(self, run_id: str) -> None:
        """Notify tasks that only keep their servers running that the servers are no longer needed."""
        for task in self._alive(self._runs.get(run_id)):
            task.tell_work_done()

    async def kill(self, run_id: str, grace_s: float) -> None:
        """Terminate the run's tasks: send SIGTERM now, and SIGKILL to tasks that are left after ``grace_s`` seconds."""
        run = self._runs.get(run_id)
        for task in self._alive(run):
            self._signal(task, signal.SIGTERM)
        asyncio.get_running_loop().call_later(grace_s, self._kill_the_rest, run)

    def _kill_the_rest(self, run: HostRun | None) -> None:
        for task in self._alive(run):
            self._signal(task, signal.SIGKILL)

    def _signal(self, task: HostTask, number: int) -> None:
        """Signal the task directly, or through the warm process if the task's process is not known yet."""
        if task.signal(number):
            return
        self._warm.kill(task.id, number)
        if self._warm.is_silent:  # the warm process would still fork the task when it resumes
            self._warm.end()

    def end_frozen(self, run_id: str, task: str, attempt: int, why: str) -> None:
        """Kill a task that is considered frozen. It then counts as a task that has died."""
        for each in self._alive(self._runs.get(run_id)):
            if (each.spec.task, each.spec.attempt) == (task, attempt) and not each.killed:
                self._end_frozen(each, why)

    def release(self, run_id: str) -> None:
        """Release all of the run's resources here: tasks, ports and directories."""
        self._drop(run_id)

    def shared_by(self, run_id: str) -> Path:
        """Return the directory that all tasks of a run's newest attempt on this machine share, even across hosts."""
        attempts = [path for path in self._shared.glob(f"{run_id}.*") if path.suffix[1:].isdecimal()]
        return max(attempts, key=lambda path: int(path.suffix[1:]), default=self._shared / run_id)

    # -- inside -------------------------------------------------------------------------------------------------

    def _part(self, run_id: str, survivors: list[str]) -> tuple[HostRun | None, dict[str, HostTask]]:
        """Kill a run's tasks here except the survivors. Returns the old run, and the survivors keyed by name."""
        if not survivors:
            self._drop(run_id)
            return None, {}
        run = self._runs.get(run_id)
        kept = {task.spec.task: task for task in self._alive(run) if task.spec.task in survivors and task.can_go_over}
        if run is None or len(kept) < len(survivors):
            raise Unavailable(f"{', '.join(sorted({*survivors} - {*kept}))} has ended in the meantime")
        for name in kept:
            del run.tasks[name]
        self._end_tasks(run)
        run.give_back_ports()
        return run, kept

    def _drop(self, run_id: str) -> None:
        run = self._runs.pop(run_id, None)
        self._feeding.partitions.forget(run_id)
        if run is not None:
            self._end_tasks(run)
            run.clear_up()

    def _end_tasks(self, run: HostRun) -> None:
        for task in run.tasks.values():
            if task.id not in run.ended:
                self._signal(task, signal.SIGKILL)
                try:
                    task.finish("The run was abandoned while this task was being started")
                except Exception:  # the other tasks must still be cleaned up
                    logger.exception("%s could not be cleaned up completely", task.id)

    @property
    def _address(self) -> str:
        """This machine's address, as other hosts know it."""
        return str(self._worker.address.split("://", 1)[1].rsplit(":", 1)[0])

    def _has_tasks(self) -> bool:
        """Return whether any task of any run is alive here."""
        return any(run.alive for run in self._runs.values())

    def _alive(self, run: HostRun | None) -> list[HostTask]:
        return run.alive if run is not None else []

    def _task(self, task_id: str) -> HostTask | None:
        run_id, name = of_task_id(task_id)
        run = self._runs.get(run_id)
        task = run.tasks.get(name) if run is not None else None
        return task if task is not None and task.id == task_id else None  # None for a task of another attempt

    async def _watch_tasks(self) -> None:
        """Poll for frozen tasks, which nothing else reports."""
        gaps = Gaps(time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME))
        while True:
            await asyncio.sleep(LOOK_S)
            unseen_s = gaps.look(time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME))
            for task in [task for run in self._runs.values() for task in run.alive]:
                try:
                    if why := task.freezes(asyncio.get_running_loop().time(), unseen_s):
                        self._end_frozen(task, why)
                except Exception:  # the other tasks must still be checked
                    logger.exception("It could not be determined whether %s is frozen", task.id)

    def _end_frozen(self, task: HostTask, why: str) -> None:
        """Kill a frozen task; ``why`` becomes the message of its result."""
        task.end_frozen(f"{why}, on host {host_name(self._worker.name)}")

    # -- reports to the controller ------------------------------------------------------------------------------

    def _tell(self) -> None:
        self._report.tell()

    def _tell_event(self, run_id: str, data: bytes) -> None:
        self._send({"op": "dtf_event", "run_id": run_id, "data": data})

    def _tell_program_end(self, run_id: str, task: str, attempt: int) -> None:
        self._send({"op": "dtf_program_ended", "run_id": run_id, "task": task, "attempt": attempt})

    def _tell_end(self, run_id: str, task: str, result: bytes) -> None:
        self._send({"op": "dtf_ended", "run_id": run_id, "task": task, "result": result})

    def _send(self, message: dict[str, Any]) -> None:
        if self._is_gone:
            return
        with contextlib.suppress(Exception):  # the stream is closed: this worker is shutting down
            self._worker.batched_stream.send({**message, "op": scoped(message["op"], self._scope)})
