"""The SchedulerPlugin that handles requests to a cluster and its hosts' reports. Modeled on Dask's plugin for shuffles.

A viewer attaches with the operation ``dtf_attach``, which turns its connection into a stream of messages. All other
operations are ordinary requests. Nothing depends on a viewer staying connected.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from distributed import Scheduler
from distributed.comm.core import Comm
from distributed.core import Status
from distributed.diagnostics.plugin import SchedulerPlugin

from ...errors import Conflict, Unavailable
from ...schema import protocol
from ...schema.api import ClusterInfo, ClusterState
from ...schema.base import to_plain
from ...schema.events import PRUNED, SearchAsked
from ...schema.launch import of_task_id
from ...schema.machines import HostInfo
from ...schema.operations import LEAVE, scoped, scoped_rpc
from ...schema.result_files import RESULTS
from ...schema.run import RunState
from ..host.host import Host
from ..kinds.dask_http import Dashboard, silence
from ..machine import paths
from ..machine.versions import read_versions
from ..records.machine_history import Machines
from ..viewer.background import Background
from .cluster_checks import ClusterChecks
from .cluster_runs import Runs
from .driver import Driver
from .external_scheduler import Guest
from .host_versions import HostVersions
from .host_watch import HostWatch
from .idle import Countdown
from .installation import NAME, Installation, answering
from .keep_alive import stay_awake
from .kept_results import KeptResults
from .open_ports import open_ports
from .preemption import Preemption
from .saving_warning import SavingWarning
from .self_shutdown import LeftAlone
from .settings import ControllerSettings
from .slow_tasks import SlowTasks
from .starting_hosts import ComingHosts
from .submission import Submission
from .task_assignment import RESTING, TaskAssignment
from .task_ends import TaskEnds
from .viewer_streams import Viewers

logger = logging.getLogger(__name__)

LEAVE_S = 4.0
"""How long a closing cluster waits for external workers to remove its plugin."""


class Controller(SchedulerPlugin):
    """Connects the components that drive runs, answers requests, and describes the cluster to its viewers."""

    def __init__(self, settings: ControllerSettings) -> None:
        self.settings = settings
        self.name = scoped(NAME, settings.scope)

    # -- installation -------------------------------------------------------------------------------------------

    async def start(self, scheduler: Scheduler) -> None:
        settings, self.scheduler = self.settings, scheduler
        self.closing = False
        rpc = scoped_rpc(scheduler.rpc, settings.scope)
        self._background = Background()
        self.viewers = Viewers(self.describe, self._viewers_changed)
        self.watch = HostWatch(
            rpc,
            self._forget_host if settings.scope else self._remove_host,
            lambda address: worker.nanny if (worker := scheduler.workers.get(address)) is not None else None,
            self._hosts_spoke,
            are_ours=not settings.scope,
        )
        self.versions = HostVersions(read_versions())
        self.checkups = ClusterChecks(self.watch.ask, self.watch.infos, self.versions, paths.machine_name())
        self.machines = Machines()
        self.coming = ComingHosts(lambda: {host.name for host in self.watch.infos.values()} | self.versions.refused)
        self.assignment = TaskAssignment(
            settings.request.jobs,
            settings.layout,
            self.watch.infos,
            rpc,
            are_expected=lambda: self.coming.are_expected,
            defaults=settings.defaults,
            leaving=self.watch.leaving,
        )
        self._results = KeptResults(
            settings.name, lambda: paths.machine_dir(settings.token) / RESULTS, self._background
        )
        self.runs = Runs(settings.name, self.viewers, self._watch_idle, self._results)
        self.saving = SavingWarning(self.runs)
        self._ends = TaskEnds(self.runs)
        self._slow_tasks = SlowTasks(self.runs, self.watch)
        self._driver = Driver(
            settings.name,
            rpc,
            assignment=self.assignment,
            watch=self.watch,
            versions=self.versions,
            checkups=self.checkups,
            background=self._background,
            on_change=self._runs_changed,
        )
        self._preemption = Preemption(self.runs, self.watch, self._driver.move)
        self._submission = Submission(settings, self.assignment, self.runs, self.saving, self._driver.begin)
        self._countdown = Countdown(settings.request.grace_s, self.close_cluster)
        self._alone = (
            LeftAlone(settings.token, settings.alone_s, self._abandon) if settings.abandon is not None else None
        )
        self._told_silent: set[tuple[str, str]] = set()
        self._removed: set[str] = set()
        self._dashboard = Dashboard(scheduler, settings.token)
        self._installation = Installation(scheduler, settings.scope)
        host = Host(settings.token, settings.name, settings.runs, settings.scope)
        self._guest = self._as_guest() if settings.scope else None
        self._listen()
        self._watching = [
            asyncio.create_task(self.watch.watch()),
            asyncio.create_task(self._slow_tasks.watch()),
            asyncio.create_task(stay_awake(scheduler, lambda: self.runs.are_busy)),
        ]
        if self._guest is not None:
            self._guest.settle(host.made_of)
        else:
            silence(scheduler)
            await self._installation.send(pickle.dumps(host))
        self._watch_idle()

    def _as_guest(self) -> Guest:
        return Guest(
            self.scheduler,
            self._installation,
            token=self.settings.token,
            is_host=lambda address: address in self.watch.infos or self.versions.is_refused(address),
            is_busy=lambda: bool(self.runs.active),
            coming=self.tell_coming,
            end=self._end,
            close_streams=self.viewers.close,
        )

    def _listen(self) -> None:
        requests: dict[str, Callable[..., Any]] = {
            "dtf_submit": self._submission.submit,
            "dtf_stop_run": self.stop_run,
            "dtf_pause_run": self.pause_run,
            "dtf_continue_run": self.continue_run,
            "dtf_profile_run": self.profile_run,
            "dtf_ask_search": self.ask_search,
            "dtf_result": self.runs.result,
            "dtf_result_part": self.runs.result_part,
            "dtf_scale": self.scale,
            "dtf_coming": self.tell_coming,
            "dtf_rest": self.rest,
            "dtf_spec": self.assignment.spec,
            "dtf_machines": self.tell_machines,
            "dtf_dashboard": self.dashboard,
            "dtf_close": self.close_cluster,
            "dtf_end_runs": self.end_runs,
            LEAVE: self.leave,
            "dtf_warn": self.warn,
            "dtf_checkup": self.checkup,
        }
        self._installation.answer({name: answering(handler) for name, handler in requests.items()})
        self._installation.answer({"dtf_attach": self.attach, "dtf_send": self._submission.send})
        self._installation.hear(
            {
                "dtf_event": self.on_event,
                "dtf_program_ended": self.on_program_ended,
                "dtf_ended": self.on_ended,
                "dtf_host": self.on_host,
            }
        )

    async def close(self) -> None:
        """Stop the watchers and the dashboard, and release the results. Called by Dask when the scheduler closes."""
        for task in self._watching:
            task.cancel()
        await self._dashboard.stop()
        self._results.close()
        if self._alone is not None:
            self._alone.close()

    async def leave(self) -> list[str]:
        """Remove this cluster from an external scheduler. Returns the addresses of the workers that do not respond."""
        if self._guest is None:
            raise Unavailable("The scheduler belongs to this cluster and ends with it, so the cluster cannot leave it")
        return await self._guest.leave(LEAVE_S)

    async def _end(self) -> None:
        """End everything that normally ends with the scheduler, before leaving a scheduler that keeps running."""
        await self.end_runs()
        self._countdown.look(in_use=True, was_seen=True)
        await self._background.end()
        await self.close()

    # -- viewers ------------------------------------------------------------------------------------------------

    async def attach(
        self, comm: Comm, role: str, after: dict[str, int], speech: object = None, **unknown: object
    ) -> Status:
        """Stream everything to a viewer: descriptions of the cluster and of every run, and the events it has not seen.

        The first message states the protocols supported here; a viewer that supports none of them receives nothing
        else.

        Args:
            comm: The connection.
            role: ``viewer``, or ``archive`` for the cluster process.
            after: The last sequence number that the viewer has seen, keyed by run; -1 or no entry requests all events.
            speech: The protocols that the viewer supports.
            unknown: Arguments of newer viewers, ignored.
        """
        refusal = protocol.viewer_refusal(protocol.theirs(speech))
        try:
            await comm.write([{"op": "speech", "speech": to_plain(protocol.ours())}])
            if refusal:
                logger.warning("%s", refusal)
                await comm.close()
                return Status.dont_reply
        except OSError:  # the viewer is already gone
            comm.abort()
            return Status.dont_reply
        return await self.viewers.serve(comm, role, self.runs.by_id, after, closing=self.closing)

    def describe(self) -> ClusterInfo:
        """Return the description of the cluster for viewers."""
        planned, notes = self.assignment.as_planned()
        drawn = self.assignment.drawn_names()
        hosts = self.watch.infos.values()
        for host in hosts:
            host.drawn = drawn.get(host.address, "")
            host.problem = self.versions.problem(host.address)
        return ClusterInfo(
            name=self.settings.name,
            kind=self.settings.request.kind,
            state=ClusterState.STOPPING if self.closing else ClusterState.RUNNING,
            jobs=dict(self.assignment.jobs),
            hosts=sorted(hosts, key=lambda host: host.name),
            created=self.settings.created,
            active_runs=len(self.runs.working),
            coming=self.coming.hosts,
            tasks=[task.location for task in planned],
            notes=[*notes, *([f"{RESTING}. The next run requests them again and waits"] * self.assignment.rests)],
            warnings=[
                *self.saving.texts,
                *self.coming.warnings,
                *self.watch.warnings,
                *self.versions.warnings,
                *self.checkups.warnings,
                *open_ports(hosts),
                *(self._guest.warnings if self._guest is not None else []),
            ],
        )

    def _runs_changed(self) -> None:
        self.runs.forget_old()
        self.viewers.tell_cluster()

    def _watch_idle(self) -> None:
        """Restart or cancel the countdown to closing the cluster, depending on whether the cluster is in use."""
        in_use = self.settings.request.keep or self.viewers.are_watching or self.runs.are_busy or self.closing
        self._countdown.look(in_use=in_use, was_seen=self.viewers.were_watching)
        if self._alone is not None:
            self._alone.look(is_held=self.viewers.archive_is_there)

    async def _abandon(self) -> None:
        """Shut down this scheduler, which is on a different machine, after the cluster process is gone."""
        logger.warning("The cluster process is gone, so the cluster %s is shut down", self.settings.name)
        await self.end_runs()
        if self.settings.abandon is not None:
            await self.settings.abandon(self.scheduler)

    def _viewers_changed(self) -> None:
        self._watch_idle()
        if self._guest is not None:
            if self.viewers.archive_is_there:
                self._guest.attached()
            elif self.viewers.archive_was_there:  # the cluster process ended without asking to leave
                self._guest.leave_soon()

    # -- reports of hosts ---------------------------------------------------------------------------------------

    def on_host(self, worker: str, info: dict[str, Any], **more: Any) -> None:
        """Handle a host's report. Hosts report when they join, when they have imported TensorFlow, and at intervals.

        Must not raise, because an exception would end the worker's stream.
        """
        if worker in self._removed:
            return  # sent before the worker was removed but received afterwards: it would remain a host forever
        known = self.watch.infos.get(worker)
        try:
            if self._refuses(worker, info, more.get("speech")):
                return
            host = msgspec.convert(info, HostInfo)
            self.versions.tells(worker, host.name, more.get("versions", {}))
            self.watch.tells(worker, host, more.get("process", ()), more.get("warnings", []))
            # Keep a connection to each host: opening one takes longer than a request.
            self.scheduler.rpc.limit = max(self.scheduler.rpc.limit, 2 * len(self.watch.infos))
            self.checkups.tells(worker, more.get("findings", []), float(more.get("time", 0)))
            if figures := more.get("figures"):
                self.machines.add(host.name, float(more["time"]), figures)
            if (leaving := more.get("leaving")) and worker not in self.watch.leaving and not self.closing:
                self.watch.leaving[worker] = str(leaving)
                self._background.begin(self._preemption.leaves(worker))
            if "alive" in more:
                self._ends.host_has(worker, set(more["alive"]))
            self._slow_tasks.tells(worker, more.get("quiet", []), more.get("paces", []))
            if self._guest is not None:
                self._guest.worker_spoke(worker)
                self._release_what_is_over(worker, more.get("alive", ()))
            self.viewers.tell_cluster()
        except Exception:
            logger.exception("The report of the host %s could not be processed", worker)
            return
        if host.warm and not (known and known.warm):
            self._background.begin(self.assignment.prepare(worker))
        self._background.begin(self.assignment.wake())

    def _refuses(self, worker: str, info: dict[str, Any], speech: object) -> bool:
        """Return whether a host's version is incompatible. Such a host is reported, and nothing runs on it."""
        known = self.versions.refusals
        if not self.versions.refuses(worker, str(info.get("name", worker)), protocol.theirs(speech)):
            return False
        for refusal in self.versions.refusals:
            if refusal not in known:
                logger.warning("%s", refusal)
                for run in self.runs.active:
                    if run.info.state is RunState.PENDING:  # the run may be waiting for this host
                        run.note("warning", "A host cannot be used", refusal)
                self.viewers.tell_cluster()
        self._background.begin(self.assignment.wake())  # stop waiting for it
        return True

    def tell_coming(self, hosts: list[dict[str, Any]]) -> None:
        """Handle the cluster process's report on hosts that are starting."""
        self.coming.take(hosts)
        self.viewers.tell_cluster()
        self._background.begin(self.assignment.wake())

    def on_event(self, worker: str, run_id: str, data: bytes) -> None:
        """Handle an event from a task. Must not raise, because an exception would end the worker's stream."""
        self.watch.hears(worker)
        if (run := self.runs.find_active(run_id)) is None:
            return
        try:
            run.record_encoded(data)
        except Exception:
            logger.exception("An event of run %s could not be processed", run_id)

    def on_program_ended(self, worker: str, run_id: str, task: str, attempt: int) -> None:
        """Handle the success of a task's program, whose process ends a little later. Must not raise."""
        if (run := self.runs.find_active(run_id)) is None:
            return
        try:
            self._driver.program_ended(run, task, attempt)
        except Exception:
            logger.exception("The end of the program of %s in run %s could not be processed", task, run_id)

    def on_ended(self, worker: str, run_id: str, task: str, result: bytes) -> None:
        """Handle the end of a task's process. Must not raise, and must not lose the report."""
        self._ends.told(run_id, task, result)

    def _release_what_is_over(self, address: str, alive: Iterable[str]) -> None:
        """Release the tasks on a host that had been given up, if their runs have ended or continued without it."""
        for run_id in {of_task_id(task)[0] for task in alive}:
            run = self.runs.find_active(run_id)
            if run is None or address not in run.by_host:
                self._background.begin(self.watch.tell([address], "dtf_release", run_id=run_id))

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """Handle the arrival of a worker (called by Dask). The worker reports to the controller once it is a host."""
        self._removed.discard(worker)
        if self._guest is not None:
            self._guest.worker_came(worker)

    def remove_worker(self, scheduler: Scheduler, worker: str, **kwargs: Any) -> None:
        """Handle the loss of a worker and of its tasks (called by Dask)."""
        self._removed.add(worker)
        self._host_is_gone(worker)
        if self._guest is not None:
            self._guest.worker_gone(worker)

    def _host_is_gone(self, address: str) -> None:
        how = self.watch.how_it_goes(address)
        host = self.watch.gone(address)
        self.versions.gone(address)
        self.checkups.gone(address)
        self._slow_tasks.gone(address)
        self._ends.host_is_gone(address, f"its host {host.name if host else address} {how}")
        if not self.closing:
            self.viewers.tell_cluster()

    async def _remove_host(self, address: str) -> None:
        """Remove one of our own hosts from Dask, after it was killed because it did not respond."""
        await self.scheduler.remove_worker(address, stimulus_id=f"dtf-silent-{time.time()}")

    async def _forget_host(self, address: str) -> None:
        """Stop using an external worker that does not respond. If it reports again, it is used as a host again."""
        self._host_is_gone(address)
        if self._guest is not None:
            self._guest.gave_up(address)

    def _hosts_spoke(self) -> None:
        """Handle a host that has stopped responding or that responds again."""
        self._told_silent = {(run_id, host) for run_id, host in self._told_silent if self.runs.find_active(run_id)}
        for run in self.runs.active:
            for address in run.by_host:
                if self.watch.is_silent(address) and (run.id, address) not in self._told_silent:
                    self._told_silent.add((run.id, address))
                    name = self.watch.infos[address].name
                    then = "kills the host and its tasks" if self._guest is None else "gives up the host"
                    run.note("warning", f"Host {name} does not respond", f"Stopping the run {then}")
        self.viewers.tell_cluster()

    # -- requests -----------------------------------------------------------------------------------------------

    async def stop_run(self, run_id: str, now: bool = False, pruned: str = "") -> None:
        """Ask a run's program to stop; kill it after its grace period, or immediately with ``now``.

        ``pruned``: for a trial that is stopped early, a sentence with the reason.
        """
        run = self.runs.find(run_id)
        if pruned and run.is_active:
            run.note("info", pruned, mark=PRUNED)
        await self._driver.stop(run, now=now)

    async def pause_run(self, run_id: str) -> None:
        """Pause a run: its tasks end with a checkpoint and release their devices. Raises NotFound, Conflict."""
        await self._driver.pause(self.runs.find(run_id))

    async def continue_run(self, run_id: str) -> None:
        """Restart the tasks of a paused run. Raises NotFound, Conflict."""
        await self._driver.continue_(self.runs.find(run_id))

    async def profile_run(self, run_id: str, steps: int) -> int:
        """Have a run's tasks trace their next steps. Returns the number of the profile within the run.

        Raises InvalidInput, Conflict.
        """
        return await self._driver.profile(self.runs.find(run_id), steps)

    def ask_search(self, run_id: str, stop: bool, more: int) -> None:
        """Ask the program that drives a trial's search to stop the search, or to run ``more`` additional trials.

        Raises Conflict if the trial has ended.
        """
        run = self.runs.find(run_id)
        if not run.is_active:
            raise Conflict(f"The trial {run_id} has ended ({run.info.state.value}), so it cannot forward a request")
        asked = "The search was asked to stop" if stop else f"{more} more trial{'s' if more != 1 else ''} requested"
        run.note("info", asked)
        run.record(SearchAsked(time=time.time(), attempt=run.attempt, stop=stop, more=more))

    def scale(self, jobs: dict[str, int]) -> dict[str, Any]:
        """Set the number of tasks per job for future runs."""
        self.assignment.scale(jobs)
        self.viewers.tell_cluster()
        self._background.begin(self.assignment.prepare())
        return dict(to_plain(self.describe()))

    def rest(self, rests: bool) -> bool:
        """Record that the cluster process wants to release its idle hosts (``rests``), or needs hosts again.

        Returns False if the hosts cannot be released because a run needs them.
        """
        if rests and self.runs.working:
            return False
        self.assignment.rests = rests
        self.viewers.tell_cluster()
        self._background.begin(self.assignment.wake())
        return True

    def tell_machines(self, after: float) -> list[dict[str, Any]]:
        """Return the machine figures since ``after`` (seconds since the epoch): ``MachineSeries`` as plain data."""
        return [dict(to_plain(series)) for series in self.machines.after(after)]

    async def checkup(self, network: bool, clean: bool, alive: list[str]) -> dict[str, Any]:
        """Check all hosts. Returns a ``Checkup`` as plain data.

        Args:
            network: Whether to measure the bandwidth between hosts as well.
            clean: Whether hosts should remove leftovers of clusters that no longer exist.
            alive: Tokens of clusters that are known to be alive.
        """
        name, kind = self.settings.name, self.settings.request.kind
        return dict(to_plain(await self.checkups.all(name, kind, network=network, clean=clean, alive=alive)))

    async def dashboard(self, start: bool) -> str:
        """Return the path of the Unix socket of Dask's dashboard, or an empty string if the dashboard is off.

        ``start``: whether to start the dashboard first. Raises Unavailable if the scheduler is on another machine, or
        does not belong to this cluster.
        """
        if self._guest is not None:
            raise Unavailable(self._guest.dashboard())
        if self.settings.abandon is not None:
            raise Unavailable(
                f"Dask's dashboard cannot be shown for a cluster of kind {self.settings.request.kind}: its scheduler "
                "is on another machine"
            )
        return await self._dashboard.start() if start else self._dashboard.socket

    def warn(self, key: str, text: str, runs: list[str]) -> None:
        """Set the warning that runs are not being saved to ``text``, and record it in ``runs``.

        An empty ``text`` withdraws the warning. ``key`` is always ``archive``, because there is no other warning.
        """
        self.saving.set(text, runs)
        self.viewers.tell_cluster()

    def close_cluster(self) -> None:
        """Ask the cluster process to close the cluster."""
        self._is_closing()
        self.viewers.tell_cluster()
        self.viewers.tell_archive("close")

    async def end_runs(self) -> None:
        """Stop all runs and wait until their ends are in the log. Called by the cluster process before it closes."""
        self._is_closing()
        work = [self._driver.end(run) for run in self.runs.active]
        for error in await asyncio.gather(*work, self.watch.end_silent(), return_exceptions=True):
            if isinstance(error, Exception):
                logger.error("A run could not be ended cleanly", exc_info=error)
        self.viewers.tell_archive("ended", last=True)  # sent after all events, so the archive knows it has them all

    def _is_closing(self) -> None:
        self.closing = True
        self._submission.close()
