"""The SchedulerPlugin: owns every run's life, keeps its log, and tells viewers. Modelled on Dask's own shuffle.

Viewers attach with the operation ``dtf_attach``, which turns their connection into a stream of messages; all else is
an ordinary request. Nothing depends on a viewer staying.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
from distributed import Scheduler
from distributed.comm.core import Comm
from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin

from ..errors import DtfError, GangIncomplete, NotFound, Unavailable
from ..schema.api import ClusterInfo, ClusterPatch, ClusterState, HostInfo
from ..schema.base import to_plain
from ..schema.cluster import check_jobs
from ..schema.events import TaskChanged
from ..schema.launch import TaskResult
from ..schema.run import RunInfo, RunRequest, RunState, TaskState
from ..schema.strategy import AllReduce
from .devices import GpuRequest
from .gang import ask_hosts, by_job, task_specs
from .host import Host
from .plan import NOT_DRAWN, Drawing, HostSlot, PlannedTask, crowding, match_hosts, plan, slots, without_gpu
from .runs import Run
from .viewers import ARCHIVE, Viewers

logger = logging.getLogger(__name__)

KILL_GRACE_S = 3.0
"""After SIGTERM, until SIGKILL."""
FIRST_VIEWER_S = 60.0
"""How long a cluster that nobody has looked at yet waits for its first viewer."""
KEPT_RUNS = 50


class ControllerSettings(msgspec.Struct):
    """What the cluster process tells the controller when it installs it."""

    name: str
    kind: str
    token: str
    """Names this cluster's files on the machines of its hosts."""
    jobs: dict[str, int]
    runs_dir: str
    keep: bool
    grace_s: float
    created: float
    drawing: Drawing = NOT_DRAWN


class Controller(SchedulerPlugin):
    """Launches runs as gangs, supervises them, and keeps what happened."""

    name = "jupyter_dtf"

    def __init__(self, settings: ControllerSettings) -> None:
        self.settings = settings
        self.jobs = settings.jobs
        self.runs: dict[str, Run] = {}

    # -- installing ---------------------------------------------------------------------------------------------

    async def start(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.viewers = Viewers(scheduler.loop, self._watch_idle)
        self.hosts: dict[str, HostInfo] = {}
        self.closing = False
        self._hosts_changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._spec: dict[str, dict[int, str]] = {}
        self._spec_lock = asyncio.Lock()
        self._has_dashboard = False
        requests: dict[str, Callable[..., Any]] = {
            "dtf_attach": self.attach,
            "dtf_submit": self.submit,
            "dtf_stop_run": self.stop_run,
            "dtf_result": self.result,
            "dtf_scale": self.scale,
            "dtf_spec": self.spec,
            "dtf_dashboard": self.dashboard,
            "dtf_close": self.close_cluster,
            "dtf_end_runs": self.end_runs,
        }
        scheduler.handlers.update({name: _answering(handler) for name, handler in requests.items()})
        scheduler.stream_handlers.update(
            {"dtf_event": self.on_event, "dtf_ended": self.on_ended, "dtf_host": self.on_host}
        )
        host = Host(self.settings.token, self.settings.name)
        await scheduler.register_worker_plugin(None, pickle.dumps(host), Host.name, idempotent=False)
        self._watch_idle()

    # -- viewers ------------------------------------------------------------------------------------------------

    async def attach(self, comm: Comm, role: str, after: dict[str, int]) -> Status:
        """Stream everything to a viewer: the cluster, every run, and the events that it has not seen.

        ``after``: the last sequence number seen of each run; -1, or no entry, asks for all.
        """
        return await self.viewers.serve(comm, role, self._so_far(role, after))

    def _so_far(self, role: str, after: dict[str, int]) -> Iterator[dict[str, Any]]:
        """What a viewer is told first."""
        yield {"op": "cluster", "info": to_plain(self.describe())}
        for run in self.runs.values():
            yield {"op": "run", "info": to_plain(run.info)}
            for seq in range(after.get(run.id, -1) + 1, len(run.log)):
                yield {"op": "event", "run": run.id, "seq": seq, "data": run.log[seq]}
        yield {"op": "attached"}
        if role == ARCHIVE and self.closing:  # asked for before the cluster process listened
            yield {"op": "close"}

    def _publish(self, run: Run, seq: int, data: bytes) -> None:
        self.viewers.send({"op": "event", "run": run.id, "seq": seq, "data": data})

    def _announce_run(self, run: Run) -> None:
        self.viewers.send({"op": "run", "info": to_plain(run.info)})
        self._watch_idle()

    def _announce(self) -> None:
        self.viewers.send({"op": "cluster", "info": to_plain(self.describe())})

    def describe(self) -> ClusterInfo:
        """The cluster as viewers see it."""
        planned, notes = self._as_planned()
        drawn = {slot.address: name for name, slot in self._drawn_hosts().items()}
        for host in self.hosts.values():
            host.drawn = drawn.get(host.address, "")
        return ClusterInfo(
            name=self.settings.name,
            kind=self.settings.kind,
            state=ClusterState.STOPPING if self.closing else ClusterState.RUNNING,
            jobs=dict(self.jobs),
            hosts=sorted(self.hosts.values(), key=lambda host: host.name),
            created=self.settings.created,
            active_runs=sum(run.is_active for run in self.runs.values()),
            tasks=[task.seat for task in planned],
            notes=notes,
        )

    def _as_planned(self) -> tuple[list[PlannedTask], list[str]]:
        """Where a run that asks for nothing else would have its tasks, and what a person should know of that."""
        if not self._has_all_hosts:
            return [], []
        try:
            planned = self._plan(self.jobs, RunRequest())
        except Unavailable as error:  # a device that was drawn is not there
            return [], [str(error)]
        return planned, [note for note in (crowding(planned), without_gpu(planned)) if note]

    @property
    def _has_all_hosts(self) -> bool:
        """Whether there is a host, and, where hosts were drawn, as many as were."""
        return len(self.hosts) >= max(1, len(self.settings.drawing.hosts))

    def _drawn_hosts(self) -> dict[str, HostSlot]:
        return match_hosts(self.settings.drawing.hosts, self._slots()) if self._has_all_hosts else {}

    def _watch_idle(self) -> None:
        """(Re)start or cancel the countdown to the end of a cluster that nobody uses."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        busy = any(run.is_active and not run.only_serves for run in self.runs.values())
        if not (self.settings.keep or self.viewers.are_watching or busy or self.closing):
            wait_s = self.settings.grace_s if self.viewers.were_watching else max(FIRST_VIEWER_S, self.settings.grace_s)
            self._idle = asyncio.get_running_loop().call_later(wait_s, self.close_cluster)

    # -- the cluster --------------------------------------------------------------------------------------------

    def on_host(self, worker: str, info: dict[str, Any]) -> None:
        """A host tells of itself: on arriving, when TensorFlow is imported, and its load now and then."""
        known = self.hosts.get(worker)
        self.hosts[worker] = host = msgspec.convert(info, HostInfo)
        self._announce()
        if host.warm and not (known and known.warm):
            self._in_background(self._prepare())
        self._in_background(self._wake())

    async def _wake(self) -> None:
        async with self._hosts_changed:
            self._hosts_changed.notify_all()

    def remove_worker(self, scheduler: Scheduler, worker: str, **kwargs: Any) -> None:
        """Dask's word that a worker has gone: its tasks are gone too."""
        host = self.hosts.pop(worker, None)
        for run in self.runs.values():
            for task in run.planned if run.is_active else []:
                if task.host.address == worker:
                    name = host.name if host else worker
                    run.task_ended(TaskResult(task=task.task), lost=f"its host {name} went away")
        if not self.closing:
            self._announce()

    def scale(self, jobs: dict[str, int]) -> dict[str, Any]:
        """New counts of tasks, for the runs to come."""
        ClusterPatch(jobs=jobs)
        self.jobs = check_jobs(jobs)
        self._spec = {}
        self._announce()
        self._in_background(self._prepare())
        return dict(to_plain(self.describe()))

    async def spec(self) -> dict[str, dict[int, str]]:
        """An endpoint for each task of the cluster's jobs, reserved on its hosts until the cluster is scaled."""
        async with self._spec_lock:
            if not self._spec:
                await self._all_hosts()
                planned = self._plan(self.jobs, RunRequest())
                endpoints = await ask_hosts(
                    self.scheduler.rpc,
                    "cluster",
                    planned,
                    "dtf_reserve",
                    lambda mine: {"tasks": [task.task for task in mine], "ready": False},
                )
                self._spec = by_job(planned, endpoints)
            return self._spec

    async def _prepare(self) -> None:
        """Tell the hosts what the next training will need of them, as far as that can be foreseen."""
        jobs = {job: count for job, count in self.jobs.items() if job in AllReduce.jobs}
        if not jobs or not self._has_all_hosts:
            return
        by_host: dict[HostSlot, list[PlannedTask]] = {}
        for task in self._plan(jobs, RunRequest(gpus_per_task=0)):
            by_host.setdefault(task.host, []).append(task)
        calls = [
            self.scheduler.rpc(host.address).dtf_prepare(threads=tasks[0].threads, count=min(len(tasks), host.threads))
            for host, tasks in by_host.items()
        ]
        await asyncio.gather(*calls, return_exceptions=True)  # one that has just gone needs nothing

    async def _all_hosts(self) -> None:
        async with self._hosts_changed:
            await self._hosts_changed.wait_for(lambda: self._has_all_hosts)

    def dashboard(self) -> str:
        """The address of Dask's dashboard. It is started by the first call: most clusters never need it."""
        from distributed.dashboard.scheduler import connect

        scheduler = self.scheduler
        if not self._has_dashboard:
            connect(scheduler.http_application, scheduler.http_server, scheduler, prefix="")
            self._has_dashboard = True
        port = scheduler.services["dashboard"].port
        return f"http://{scheduler.listeners[0].contact_address.split('://')[1].rsplit(':', 1)[0]}:{port}/status"

    def close_cluster(self) -> None:
        """Ask the cluster process to end the cluster."""
        self.closing = True
        self._announce()
        self.viewers.send({"op": "close"}, role=ARCHIVE)

    async def end_runs(self) -> None:
        """Stop every run and wait for their ends to be in the log; for the cluster process, before it closes."""
        self.closing = True
        active = [run for run in self.runs.values() if run.is_active]
        for run in active:
            await self.stop_run(run.id, now=True)
        for run in active:
            await run.ended.wait()
        self.viewers.send({"op": "ended"})  # behind every event, so that the archive knows that it has them all

    # -- runs ---------------------------------------------------------------------------------------------------

    def submit(self, request: bytes, payload: bytes) -> dict[str, Any]:
        """Accept a run. Returns its RunInfo at once; the rest is told by events."""
        wanted = msgspec.msgpack.decode(request, type=RunRequest)
        jobs = check_jobs(wanted.jobs or self.jobs)
        if self.closing:
            raise GangIncomplete("The cluster is closing")
        if self._has_all_hosts:
            self._plan(jobs, wanted)  # raises for what is not there
        run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        info = RunInfo(
            id=run_id,
            name=wanted.name or wanted.kind,
            cluster=self.settings.name,
            kind=wanted.kind,
            strategy=wanted.strategy,
            jobs=jobs,
            created=time.time(),
            parameters=wanted.parameters,
            run_dir=str(Path(self.settings.runs_dir) / run_id),
        )
        run = self.runs[run_id] = Run(info, wanted, self._publish, self._announce_run)
        self._announce_run(run)
        self._watch_idle()
        self._in_background(self._drive(run, payload))
        return dict(to_plain(info))

    async def stop_run(self, run_id: str, now: bool = False) -> None:
        """Ask a run's program to stop; after its grace, or at once with ``now``, end it."""
        run = self._run(run_id)
        again = run.info.state is RunState.STOPPING
        if run.info.state is RunState.PENDING:
            run.to(RunState.STOPPED, "stopped before it started")
            await self._wake()
        elif run.info.state in (RunState.LAUNCHING, RunState.RUNNING):
            run.to(RunState.STOPPING)
            await self._tell_hosts(run, "dtf_stop")
        if run.is_active and (now or again):
            await self._kill(run)
        elif run.is_active:
            self._in_background(self._kill_after(run, run.request.stop_grace_s))

    def result(self, run_id: str, task: str) -> bytes:
        """The pickled return value of a task that has succeeded."""
        run = self._run(run_id)
        if task not in run.results:
            raise NotFound(f"Only a task that succeeded has a result. Received: {run_id} {task}")
        return run.results[task]

    def on_event(self, worker: str, run_id: str, data: bytes) -> None:
        """An event from a task. Must not raise: it would end the worker's stream."""
        run = self.runs.get(run_id)
        if run is None or not run.is_active:
            return
        try:
            run.record_encoded(data)
        except msgspec.MsgspecError:
            logger.exception("An event of run %s could not be read", run_id)

    def on_ended(self, worker: str, run_id: str, result: bytes) -> None:
        """A task's process is gone; its host has sent everything it said."""
        run = self.runs.get(run_id)
        if run is not None and run.is_active:
            run.task_ended(msgspec.msgpack.decode(result, type=TaskResult))

    async def _drive(self, run: Run, payload: bytes) -> None:
        """The whole life of a run, in order."""
        try:
            await self._launch(run, payload)
            del payload
            if run.is_active:
                await run.work_done.wait()
                if not run.decided.is_set():
                    await self._tell_hosts(run, "dtf_work_done")
                await run.decided.wait()
                await self._conclude(run)
        except DtfError as error:
            await self._abandon(run, str(error))
        except Exception as error:
            logger.exception("Run %s could not be driven", run.id)
            await self._abandon(run, f"{type(error).__name__}: {error}")
        finally:
            await self._tell_hosts(run, "dtf_release")
            self._announce()
            self._forget_old()
            self._watch_idle()

    async def _launch(self, run: Run, payload: bytes) -> None:
        if not self._has_all_hosts:
            there = f"{len(self.hosts)} of {len(self.settings.drawing.hosts)} hosts" if self.hosts else "no host"
            run.note("info", "Waiting for hosts", f"The cluster {self.settings.name} has {there} yet")
        async with self._hosts_changed:
            await self._hosts_changed.wait_for(lambda: self._has_all_hosts or not run.is_active)
        if not run.is_active:
            return
        planned = self._plan(run.info.jobs, run.request)
        if crowded := crowding(planned):
            run.note("info", "More threads than cores", crowded)
        if run.request.gpus_per_task is None and (left := without_gpu(planned)):
            run.note("warning", "More tasks than GPUs", left)
        run.place(planned)
        run.to(RunState.LAUNCHING)
        self._announce()
        endpoints = await ask_hosts(
            self.scheduler.rpc,
            run.id,
            planned,
            "dtf_reserve",
            lambda mine: {"tasks": [task.task for task in mine], "ready": True},
        )
        specs = task_specs(run, self.settings.name, endpoints)
        if run.info.state is not RunState.LAUNCHING or run.decided.is_set():  # stopped, or a host went away meanwhile
            for task in run.planned:
                run.task_ended(TaskResult(task=task.task), lost="it was not started")
            return
        pids = await ask_hosts(
            self.scheduler.rpc,
            run.id,
            planned,
            "dtf_launch",
            lambda mine: {"specs": [msgspec.json.encode(specs[task.task]) for task in mine], "payload": payload},
        )
        for name, pid in pids.items():
            if run.task_info(name).state is TaskState.PENDING:
                run.record(TaskChanged(time=time.time(), task=name, state=TaskState.STARTING, pid=int(pid)))
        if run.is_stopping:  # asked for while the tasks were being forked
            await self._tell_hosts(run, "dtf_stop")

    async def _conclude(self, run: Run) -> None:
        failure = run.first_failure
        if failure is not None:
            await self._kill(run)
            await run.tasks_ended.wait()
            if run.info.state is RunState.STOPPING:
                run.to(RunState.STOPPED)
            else:
                run.to(RunState.FAILED, f"{failure.task} {_predicate(failure.message)}")
        elif run.info.state is RunState.STOPPING:
            run.to(RunState.STOPPED)
        else:
            run.to(RunState.SUCCEEDED)

    async def _abandon(self, run: Run, why: str) -> None:
        await self._kill(run)
        if run.is_active:
            run.to(RunState.FAILED, why)

    async def _kill(self, run: Run) -> None:
        await self._tell_hosts(run, "dtf_kill", grace_s=KILL_GRACE_S)

    async def _kill_after(self, run: Run, wait_s: float) -> None:
        try:
            await asyncio.wait_for(run.ended.wait(), wait_s)
        except asyncio.TimeoutError:
            run.note("warning", "The program did not stop by itself", f"It is ended after {wait_s:g} s")
            await self._kill(run)

    async def _tell_hosts(self, run: Run, op: str, **message: Any) -> None:
        """Ask every host of the run that is still there; a host that fails to answer is on its way out."""
        addresses = {task.host.address for task in run.planned} & set(self.hosts)
        calls = [getattr(self.scheduler.rpc(address), op)(run_id=run.id, **message) for address in addresses]
        for answer in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(answer, Exception):
                logger.warning("%s of run %s: %r", op, run.id, answer)

    def _run(self, run_id: str) -> Run:
        if run_id not in self.runs:
            raise NotFound(f"The cluster {self.settings.name} has no run of that id. Received: {run_id!r}")
        return self.runs[run_id]

    def _slots(self) -> list[HostSlot]:
        return slots(self.hosts.values())

    def _plan(self, jobs: dict[str, int], request: RunRequest) -> list[PlannedTask]:
        gpus = GpuRequest(request.gpus_per_task, request.gpu_memory)
        return plan(jobs, self._slots(), request.threads_per_task, gpus, self.settings.drawing)

    def _forget_old(self) -> None:
        finished = [run_id for run_id, run in self.runs.items() if not run.is_active]
        for run_id in finished[:-KEPT_RUNS]:
            del self.runs[run_id]

    def _in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _predicate(message: str) -> str:
    return message if message.startswith("died") else f"failed: {message}"


def _answering(handler: Callable[..., Any]) -> Callable[..., Any]:
    """Answer our own errors as values: Dask would log each with a traceback, and a viewer wants class and text."""
    if handler.__name__ == "attach":
        return handler

    async def answer(**message: Any) -> Any:
        try:
            result = handler(**message)
            return {"ok": await result if asyncio.iscoroutine(result) else result}
        except DtfError as error:
            return {"error": type(error).__name__, "message": str(error)}

    answer.__name__ = handler.__name__
    return answer
