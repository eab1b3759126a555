"""The WorkerPlugin: makes a Dask worker a host for tasks. Starts them from the warm process, carries what they say."""

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
import psutil
from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin

from ...errors import Unavailable
from ...schema import private, protocol
from ...schema.base import to_plain
from ...schema.hosts import host_name
from ...schema.launch import ProfileOrder, TaskSpec, of_task_id
from ...schema.machines import HostInfo
from ...schema.operations import scoped
from ...schema.room import refusal
from ..kinds.base import NOTICE, SLOTS
from ..kinds.dask_http import silence
from ..machine import family, paths
from ..machine.figures import Figures
from ..machine.gpus import read_gpus
from ..machine.mark import Mark
from ..machine.meeting_place import answer, read_word
from ..machine.oom import OomWatch
from ..machine.processes import stat_of
from ..machine.versions import read_versions
from ..planning.host_findings import worse
from .feeding import Feeding
from .host_checks import HostChecks
from .host_load import HostLoad
from .host_run import ADVICE, HostRun
from .host_task import HostTask
from .notice import Notice
from .task_exits import TaskExits
from .task_watch import LOOK_S, Gaps
from .warm_keeper import WarmKeeper

logger = logging.getLogger(__name__)

SAMPLE_INTERVAL_S = 2.0
"""Between two readings of the CPU time and memory of the host and its tasks."""
_LOOK_S = 0.5
_GIVEN_UP = "The run was given up before its tasks were started"


class Host(WorkerPlugin):
    """Runs tasks of the cluster ``token`` on this Dask worker. ``runs`` marks the parent of the runs' directories.

    With a ``scope`` the worker is somebody else's: its operations are under names of that scope, and nothing is left.
    """

    name = "jupyter_dtf"

    def __init__(self, token: str, cluster: str, runs: Mark, scope: str = "") -> None:
        self._token = token
        self._cluster = cluster
        self._mark = runs
        self._scope = scope

    @property
    def made_of(self) -> dict[str, Any]:
        """Plain data of which ``made`` makes the same."""
        return {"token": self._token, "cluster": self._cluster, "runs": list(self._mark), "scope": self._scope}

    @classmethod
    def made(cls, of: dict[str, Any]) -> Host:
        return cls(**{**of, "runs": Mark(*of["runs"])})

    # -- living in the worker -----------------------------------------------------------------------------------

    async def setup(self, worker: Worker) -> None:
        if not self._scope:
            silence(worker)
        self._worker = worker
        self._is_gone = False
        self._directory = paths.machine_dir(self._token)
        self._shared = paths.shared_memory_dir(self._token)
        self._claims = [family.claim(directory) for directory in (self._directory, self._shared)]
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
        stat = stat_of(os.getpid())
        self._identity = [os.getpid(), stat.started if stat is not None else 0]
        self._figures = Figures()
        self._versions = read_versions()
        self._feeding = Feeding(worker, self._directory, self._scope)
        self._feeding.start()
        self._checks = HostChecks(self._token, self._versions, self._warm, lambda: self._address)
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
        self._sampling = asyncio.create_task(self._sample())
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
        self._is_gone = True  # from here on the worker says nothing that the scheduler may not know any more
        self._oom.close()
        for claim in self._claims:
            os.close(claim)
        if self._scope:  # nobody else looks after this machine
            for directory in (self._directory, self._shared):
                await asyncio.to_thread(family.sweep_one, directory)

    def _on_warm(self, message: dict[str, Any]) -> None:
        task = self._task(message["id"]) if "id" in message else None
        match message["op"]:
            case "forked" if task is not None:
                task.is_forked(message["pid"], lambda: self._exits.gone(task))
            case "forked":  # late: its run was given up while the warm process did not answer
                self._warm.kill(message["id"], signal.SIGKILL)
            case "not_forked" if task is not None:
                task.is_not_forked(f"{task.spec.task} could not be started: {message['message']}")
            case "exited":
                self._exits.exited(message["id"], message["status"])

    def _on_warm_lost(self, why: str) -> None:
        self._exits.all_killed(why)

    # -- what the controller asks -------------------------------------------------------------------------------

    def prepare(self, threads: int, count: int) -> None:
        """Be ready for a training with so many tasks here, of so many threads each."""
        if not read_gpus():  # a spare would start TensorFlow on GPUs that are not its own
            self._warm.prepare(threads, count)

    def survivors(self, run_id: str) -> list[str]:
        """The tasks of a run whose processes can go over to its next attempt."""
        return [task.spec.task for task in self._alive(self._runs.get(run_id)) if task.can_go_over]

    async def reserve(
        self, run_id: str, places: list[str], ready: bool, attempt: int = 0, survivors: list[str] | None = None
    ) -> dict[str, str]:
        """Bind a port for each place; with ``ready``, wait until tasks can be forked. Returns each place's endpoint.

        The ports stay bound until the run is released or reserves again. ``survivors``: tasks that go over; all others
        that the run still has here are ended. Raises Unavailable if one of them cannot.
        """
        self._refuse_if_leaving()
        before, kept = self._part(run_id, survivors or [])
        # Of this attempt: what another host of this machine has left of the one before may still be cleared up.
        name = f"{run_id}.{attempt}" if attempt else run_id
        # Its own, for several hosts of a machine may have tasks of the run.
        run = HostRun(self._directory / f"{name}-{os.getpid()}", self._shared / name, before)
        run.tasks.update(kept)
        self._runs[run_id] = run
        endpoints = run.reserve(places, self._address)
        if ready:
            await self._warm.usable(may_end=lambda: not self._has_tasks())
        elif self._warm.failure:
            raise Unavailable(self._warm.failure)
        if self._runs.get(run_id) is not run:
            raise Unavailable(_GIVEN_UP)
        return endpoints

    def sees(self, directory: str, challenge: str) -> str:
        """Show that this host sees a directory, if it does."""
        return answer(read_word(directory), challenge)

    async def put(self, run_id: str, at: int, data: bytes) -> tuple[str, str]:
        """Take a piece of the run's program. Returns the directory that it is in, and its word."""
        if (run := self._runs.get(run_id)) is None:
            raise Unavailable(_GIVEN_UP)
        return await asyncio.to_thread(run.take, at, data)

    async def launch(self, run_id: str, specs: list[bytes], payload: bytes = b"", program: str = "") -> dict[str, str]:
        """Fork the tasks of a program, which is a file that is here or comes with this; those that were kept when the
        run has reserved go over. Returns their process ids.
        """
        self._refuse_if_leaving()
        if (run := self._runs.get(run_id)) is None:
            raise Unavailable(_GIVEN_UP)
        path = Path(program) if program else run.directory / "payload"
        try:
            private.make_dir(run.directory)
            if payload:
                await asyncio.to_thread(private.write_file, path, payload)
            if self._runs.get(run_id) is not run:
                raise Unavailable(_GIVEN_UP)
            shared = private.own_dir(run.shared)
            for data in specs:
                spec = msgspec.json.decode(data, type=TaskSpec)
                if spec.joins and (task := run.tasks.get(spec.task)) is not None:
                    self._go_over(run, task, spec, shared)
                else:
                    self._fork(run, spec, path, shared)
        except OSError as error:
            needed = len(payload) + sum(map(len, specs))
            raise Unavailable(refusal(run.directory, "The program", error, needed=needed, advice=ADVICE)) from None
        forked = asyncio.gather(*(task.forked for task in run.tasks.values()))
        while not (await asyncio.wait({forked}, timeout=_LOOK_S))[0]:
            if self._warm.is_silent:
                why = self._warm.warnings[0]
                if not any(other.alive for other in self._runs.values() if other is not run):
                    self._warm.end()  # what it has forked of this gang ends with it, and the next try finds another
                raise Unavailable(why)
        pids = forked.result()
        return {name: str(pid) for name, pid in zip(run.tasks, pids, strict=True)}

    def _refuse_if_leaving(self) -> None:
        if self._notice.why:
            raise Unavailable(f"Its machine is to go ({self._notice.why})")

    def _go_over(self, run: HostRun, task: HostTask, spec: TaskSpec, shared: Path) -> None:
        if task.id in run.ended or not task.can_go_over:
            raise Unavailable(f"{spec.task} has ended meanwhile")
        spec.payload, spec.run_dir, spec.task_dir = task.spec.payload, task.spec.run_dir, task.spec.task_dir
        spec.shared_dir, spec.feed = str(shared), str(self._feeding.path)
        task.go_over(spec)

    def _fork(self, run: HostRun, spec: TaskSpec, program: Path, shared: Path) -> None:
        spec.payload = str(program)
        if not self._sees_runs:
            spec.run_dir = str(paths.runs_dir() / spec.run_id)
        spec.shared_dir, spec.feed = str(shared), str(self._feeding.path)
        name = spec.task.replace(":", "-")
        # Another process of the same task has left its outcome, if it could, in its own.
        spec.task_dir = str(run.directory / (f"{name}.{spec.attempt}" if spec.task in run.tasks else name))
        spec_path = private.make_dir(Path(spec.task_dir)) / "spec.json"
        private.write_file(spec_path, msgspec.json.encode(spec))
        tell = partial(self._tell_event, spec.run_id)
        task = HostTask(spec, spec.id, tell, keeps_output=self._sees_runs)
        run.tasks[spec.task] = task
        self._warm.fork(task.id, spec_path, task.descriptors, spec.threads if spec.may_be_spare else 0)
        task.hand_over()

    def stop(self, run_id: str) -> None:
        """Ask the run's programs to stop."""
        run = self._runs.get(run_id)
        for task in self._alive(run):
            task.ask_to_stop()

    def save(self, run_id: str) -> None:
        """Have the run's tasks write a checkpoint, and go on."""
        for task in self._alive(self._runs.get(run_id)):
            task.ask_for_checkpoint()

    def saves(self, run_id: str) -> bool:
        """Whether one of the run's tasks takes or writes a checkpoint, by its last sign of life."""
        return any(task.beat.saves for task in self._alive(self._runs.get(run_id)))

    def profile(self, run_id: str, order: bytes) -> None:
        """Have the run's tasks trace steps: ``order`` is a ``ProfileOrder`` as JSON. Raises OSError."""
        told = msgspec.json.decode(order, type=ProfileOrder)
        for task in self._alive(self._runs.get(run_id)):
            task.profile(told)

    def work_done(self, run_id: str) -> None:
        """Tell the tasks that only keep their servers up that nobody needs them any more."""
        for task in self._alive(self._runs.get(run_id)):
            task.tell_work_done()

    async def kill(self, run_id: str, grace_s: float) -> None:
        """End the run's tasks: SIGTERM now, SIGKILL to what is left after ``grace_s`` seconds."""
        run = self._runs.get(run_id)
        for task in self._alive(run):
            self._signal(task, signal.SIGTERM)
        asyncio.get_running_loop().call_later(grace_s, self._kill_the_rest, run)

    def _kill_the_rest(self, run: HostRun | None) -> None:
        for task in self._alive(run):
            self._signal(task, signal.SIGKILL)

    def _signal(self, task: HostTask, number: int) -> None:
        """Directly, for the warm process may not answer; by way of it where the task's process is not known yet."""
        if task.signal(number):
            return
        self._warm.kill(task.id, number)
        if self._warm.is_silent:  # it would fork the task when it goes on
            self._warm.end()

    def end_frozen(self, run_id: str, task: str, attempt: int, why: str) -> None:
        """End a task that is held to be frozen, as a task that has died."""
        for each in self._alive(self._runs.get(run_id)):
            if (each.spec.task, each.spec.attempt) == (task, attempt) and not each.killed:
                self._end_frozen(each, why)

    def release(self, run_id: str) -> None:
        """Forget the run: its ports, its directories."""
        self._drop(run_id)

    def shared_by(self, run_id: str) -> Path:
        """The directory that the tasks of a run's newest attempt share on this machine, whichever host has them."""
        attempts = [path for path in self._shared.glob(f"{run_id}.*") if path.suffix[1:].isdecimal()]
        return max(attempts, key=lambda path: int(path.suffix[1:]), default=self._shared / run_id)

    # -- inside -------------------------------------------------------------------------------------------------

    def _part(self, run_id: str, survivors: list[str]) -> tuple[HostRun | None, dict[str, HostTask]]:
        """End a run here but for its survivors. What they leave behind, and they, by their names."""
        if not survivors:
            self._drop(run_id)
            return None, {}
        run = self._runs.get(run_id)
        kept = {task.spec.task: task for task in self._alive(run) if task.spec.task in survivors and task.can_go_over}
        if run is None or len(kept) < len(survivors):
            raise Unavailable(f"{', '.join(sorted({*survivors} - {*kept}))} has ended meanwhile")
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
                    task.finish("The run was given up while this task was being started")
                except Exception:  # it does not keep the rest from being done
                    logger.exception("Not all of %s could be cleared up", task.id)

    @property
    def _address(self) -> str:
        """This machine's, as the other hosts know it."""
        return str(self._worker.address.split("://", 1)[1].rsplit(":", 1)[0])

    def _has_tasks(self) -> bool:
        """Whether a task of any run lives here."""
        return any(run.alive for run in self._runs.values())

    def _alive(self, run: HostRun | None) -> list[HostTask]:
        return run.alive if run is not None else []

    def _task(self, task_id: str) -> HostTask | None:
        run_id, name = of_task_id(task_id)
        run = self._runs.get(run_id)
        task = run.tasks.get(name) if run is not None else None
        return task if task is not None and task.id == task_id else None  # not one of another attempt

    async def _watch_tasks(self) -> None:
        """Look again and again whether a task is frozen, which nothing else tells."""
        gaps = Gaps(time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME))
        while True:
            await asyncio.sleep(LOOK_S)
            unseen_s = gaps.look(time.monotonic(), time.clock_gettime(time.CLOCK_BOOTTIME))
            for task in [task for run in self._runs.values() for task in run.alive]:
                try:
                    if why := task.freezes(asyncio.get_running_loop().time(), unseen_s):
                        self._end_frozen(task, why)
                except Exception:  # the others are looked at all the same
                    logger.exception("It could not be found out whether %s is frozen", task.id)

    def _end_frozen(self, task: HostTask, why: str) -> None:
        """A task that is frozen is as good as dead. Its end says why."""
        task.end_frozen(f"{why}, on host {host_name(self._worker.name)}")

    # -- what the controller is told ----------------------------------------------------------------------------

    def _tell_event(self, run_id: str, data: bytes) -> None:
        self._send({"op": "dtf_event", "run_id": run_id, "data": data})

    def _tell_end(self, run_id: str, task: str, result: bytes) -> None:
        self._send({"op": "dtf_ended", "run_id": run_id, "task": task, "result": result})

    def _send(self, message: dict[str, Any]) -> None:
        if self._is_gone:
            return
        with contextlib.suppress(Exception):  # the stream is closed: this worker is on its way out
            self._worker.batched_stream.send({**message, "op": scoped(message["op"], self._scope)})

    def _tell(self, seconds: float = 0.0) -> None:
        """Tell the controller of this host: that it is there, what it can do, its load, its living tasks.

        With the ``seconds`` since the last reading, also the figures of its machine, which are kept over time.
        """
        if seconds:
            self._load.read(seconds, [task for run in self._runs.values() for task in run.alive])
        cpu, memory_bytes = self._load.cores, self._load.memory_bytes
        gpus = read_gpus()
        figures = self._figures.read(seconds, cpu, memory_bytes, gpus) if seconds else {}
        limit = self._worker.memory_manager.memory_limit
        info = HostInfo(
            name=host_name(self._worker.name),
            address=self._worker.address,
            machine=paths.machine_name(),
            threads=self._worker.state.nthreads,
            memory_bytes=int(limit or psutil.virtual_memory().total),
            cpu=cpu,
            memory_used_bytes=memory_bytes,
            gpus=gpus,
            warm=self._warm.is_ready,
            slots=int(self._worker.state.total_resources.get(SLOTS, 0)),
            unguarded=self._warm.unguarded,
        )
        tasks = [task for run in self._runs.values() for task in run.alive]
        now = asyncio.get_running_loop().time()
        self._send(
            {
                "op": "dtf_host",
                "info": to_plain(info),
                "speech": to_plain(protocol.ours()),
                "versions": self._versions,
                "process": self._identity,
                "warnings": self._warm.warnings,
                "leaving": self._notice.why,
                "findings": to_plain(worse(self._checks.findings())),
                "alive": [task.spec.id for task in tasks],
                "quiet": to_plain([quiet for task in tasks if (quiet := task.quiet(now)) is not None]),
                "paces": to_plain([pace for task in tasks if (pace := task.pace) is not None]),
                "figures": figures,
                "time": time.time(),
            }
        )

    async def _sample(self) -> None:
        """Read the load of the host and of each task; a reading needs time to pass, so this one thing has a rhythm."""
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(SAMPLE_INTERVAL_S)
            await self._checks.look()
            now = loop.time()
            try:
                self._tell(now - before)
            except Exception:  # the next one tells that this host is there
                logger.exception("The load of this host could not be read")
            before = now
