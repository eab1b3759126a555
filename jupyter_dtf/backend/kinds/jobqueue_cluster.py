"""The Dask cluster of the batch system kinds: the scheduler runs here, and each worker is a dask-jobqueue job."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import jobqueue_import  # noqa: F401

# isort: split

from dask_jobqueue.core import JobQueueCluster
from distributed.deploy.cluster import Cluster
from distributed.deploy.spec import ProcessInterface
from distributed.utils import get_ip, get_ip_interface

from ...errors import InvalidInput, Unavailable
from ...schema.machines import ComingHost
from ..machine import cluster_processes, paths
from . import jobqueue_jobs
from .base import ENDED
from .dask_http import SilentScheduler
from .node_settings import node_settings

logger = logging.getLogger(__name__)

WORKER = "jupyter_dtf.backend.kinds.job_worker"
LOOK_S = 3.0
"""The interval between two queries of the batch system about a job whose worker has not joined."""
PATIENCE_S = 60
"""How long a worker tries to reach the scheduler."""
SETTINGS, LOGS = "settings.json", "logs"
_WORDS = 600
_ROUTINE = re.compile(r"\bINFO\b")
_SYSTEMS = re.compile(r"slurmstepd|=>> PBS|\bTERM_[A-Z]+|\bWALLTIME\b|[Jj]ob killed")
"""Lines that batch systems write into the output of a job that they kill."""


class Refused(Exception):
    """Raised when a command of the batch system fails. The message is the command's output."""


class WatchedJob(ProcessInterface):
    """A mixin for dask-jobqueue's jobs: reports their progress, and prevents a rejected job from affecting others."""

    name: str
    job_id: str | None
    submit_command: str
    log_directory: str | None

    def __init__(self, *args: Any, system: str, watch: Callable[[WatchedJob], None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.step, self.problem = "submitting", ""
        self._system = system
        self._watch = watch
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        try:
            await super().start()
        except (Refused, ValueError, OSError) as error:
            self._end(f"{self.submit_command} refused the job: {_last(str(error))}")
            await ProcessInterface.start(self)
            return
        self.look()

    async def close(self) -> None:
        """Cancel the job, whatever its state."""
        self._stop_looking()
        with contextlib.suppress(Refused, OSError):  # it has already ended
            await super().close()
        await ProcessInterface.close(self)

    def describe(self, name: str) -> ComingHost:
        """Return the job's progress, as a ComingHost with this name."""
        return ComingHost(name=name, step=self.step, problem=self.problem)

    def joined(self) -> None:
        """Stop querying the batch system, because the job's worker has joined."""
        self._stop_looking()

    def look(self) -> None:
        """Start querying the batch system about the job, until its worker has joined or the job has ended."""
        self._stop_looking()
        self._looking = asyncio.create_task(self._look())

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        self._at("queueing")
        while True:
            try:
                if await self._has_ended():
                    return
            except OSError as error:  # try again later
                logger.warning("The state of job %s could not be requested: %s", self.job_id, error)
            except Exception:
                logger.exception("The state of job %s could not be read", self.job_id)
            await asyncio.sleep(LOOK_S)

    async def _has_ended(self) -> bool:
        """Query the batch system once, and report the job's progress. Returns whether the job has ended."""
        question = jobqueue_jobs.QUESTIONS[self._system]
        status, said = await _ask([*question.command, str(self.job_id)])
        match question.read(status, said):
            case jobqueue_jobs.GONE:
                words = await asyncio.to_thread(self._last_words)
                self._end(f"Job {self.job_id} has ended{f': {words}' if words else ' without any output'}")
                return True
            case jobqueue_jobs.RUNS:
                self._at("starting Python")
        return False

    def _last_words(self) -> str:
        """Return the end of the job's output, which contains the batch system's own message.

        Files that have been removed in the meantime are left out.
        """
        mine = re.compile(rf"(?<!\d){re.escape(str(self.job_id))}(?!\d)")
        written: list[tuple[float, str]] = []
        with contextlib.suppress(OSError):
            for path in Path(self.log_directory or "").iterdir():
                if mine.search(path.name) and path.suffix != ".log":
                    with contextlib.suppress(OSError):
                        text = path.read_text(errors="replace")[-_WORDS * 4 :]
                        written.append((path.stat().st_mtime, text))
        return _last("\n".join(text for _, text in sorted(written, key=lambda each: each[0])))

    def _at(self, step: str) -> None:
        self.step = step
        self._watch(self)

    def _end(self, problem: str) -> None:
        self.problem = problem
        self._at(ENDED)

    @staticmethod
    async def _call(cmd: list[str], *, shell: bool = False, stdin: Any = None) -> str:
        """Override dask-jobqueue's method: a failed command raises an exception with the command's output only."""
        status, said = await _ask(cmd, stdin)
        if status:
            raise Refused(said or f"{cmd[0]} exited with status {status}")
        return said


async def _ask(command: list[str], stdin: Any = None) -> tuple[int, str]:
    """Run a command without this cluster's environment variables, which jobs would inherit. Return its status and
    output.
    """
    environment = {
        name: value for name, value in os.environ.items() if name not in (cluster_processes.VARIABLE, paths.MACHINE)
    }
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL if stdin is None else stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode(errors="replace").strip()


def _last(text: str) -> str:
    """Return the last lines of an output, joined into one: only the batch system's lines if it has written any."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _ROUTINE.search(line)]
    lines = [line for line in lines if _SYSTEMS.search(line)] or lines
    return " / ".join(lines[-3:])[-_WORDS:]


class WatchedCluster(JobQueueCluster):
    """A cluster of jobs named after their batch system: ``slurm-0``, ``slurm-1``..."""

    def __init__(self, system: str, shared: Path, **more: Any) -> None:
        self._system = system
        self._shared = shared
        self.claim = -1
        self._known: dict[str, WatchedJob] = {}
        self._tell: Callable[[list[ComingHost]], None] = lambda hosts: None
        super().__init__(system=system, watch=self._on_change, asynchronous=True, **more)

    def scale(self, n: int | None = None, jobs: int = 0, memory: Any = None, cores: Any = None) -> Any:
        """Scale as Dask does. Ended jobs are replaced only on this request, because each job costs computing time."""
        for name in [name for name, job in self._known.items() if job.step == ENDED]:
            self.worker_spec.pop(name, None)
            del self._known[name]
        scaled = super().scale(n, jobs, memory, cores)
        self._changed()
        return scaled

    def watch_hosts(self, tell: Callable[[list[ComingHost]], None]) -> None:
        """Call ``tell(hosts)`` with all requested hosts, now and whenever one of them makes progress or fails."""
        self._tell = tell
        self._changed()

    async def _close(self) -> None:
        try:
            await super()._close()
        finally:
            await asyncio.to_thread(shutil.rmtree, self._shared, True)
            if self.claim >= 0:
                os.close(self.claim)
                self.claim = -1

    # -- Dask's hooks for derived classes --------------------------------------------------------------------------

    def _new_worker_name(self, worker_number: int) -> str:
        return f"{self._system}-{worker_number}"

    def new_worker_spec(self) -> Any:
        while self._new_worker_name(self._i) in self.workers:  # the old job may have ended without being closed yet
            self._i += 1
        return super().new_worker_spec()

    def _get_worker_security(self, security: Any) -> None:
        """Do nothing: the certificates are in the settings file."""

    def _update_worker_status(self, op: str, msg: Any) -> None:
        """Override SpecCluster's method, which would submit new jobs forever for workers that leave."""
        if op == "remove":
            names = [self.scheduler_info["workers"][msg]["name"]]
        else:
            names = [worker["name"] for worker in msg["workers"].values()]
        Cluster._update_worker_status(self, op, msg)
        for name in names:
            if (job := self._known.get(name)) is not None:
                job.look() if op == "remove" else job.joined()

    # -- progress of hosts --------------------------------------------------------------------------------------

    def _on_change(self, job: WatchedJob) -> None:
        self._known[str(job.name)] = job  # Dask adds it to `workers` only when all new jobs have started
        self._changed()

    def _changed(self) -> None:
        coming = [
            job.describe(name) if (job := self._known.get(name)) is not None else ComingHost(name, "submitting")
            for name in self.worker_spec
        ]
        self._tell(coming)


def job_class(system: str) -> type[Any]:
    """Return the job class of a batch system: dask-jobqueue's class with the WatchedJob mixin."""
    return type(f"{system.title()}Job", (WatchedJob, jobqueue_jobs.jobs()[system]), {})


def script(system: str, options: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    """Return the job script of one worker, with placeholders for values that are known only once the cluster runs.

    ``own`` contains the arguments that only this system's job class has.
    """
    shown = str(_shared(options) / "CLUSTER")
    with tempfile.TemporaryDirectory() as anywhere:
        job = job_class(system)(
            "tls://ADDRESS:PORT",
            f"{system}-0",
            system=system,
            watch=lambda job: None,
            interface=options["interface"] or None,
            protocol="tls://",
            **_job_options(system, options, own, Path(anywhere)),
        )
        return str(job.job_script()).replace(anywhere, shown)


async def start(
    system: str, options: Mapping[str, Any], own: Mapping[str, Any], security: Any, token: str
) -> WatchedCluster:
    """Start the scheduler and return the cluster, before any job is submitted. Raises InvalidInput or Unavailable."""
    address = _listen_at(options)
    shared, claim = await asyncio.to_thread(_prepare, options, security, token)
    try:
        cluster = WatchedCluster(
            system,
            shared,
            job_cls=job_class(system),
            security=security,
            interface=options["interface"] or None,
            scheduler_cls=SilentScheduler,
            scheduler_options={"host": address, "port": 0, "dashboard": False, "dashboard_address": ":0"},
            **_job_options(system, options, own, shared),
        )
        cluster.claim = claim
        started: WatchedCluster = await cluster
        return started
    except BaseException:
        os.close(claim)
        shutil.rmtree(shared, ignore_errors=True)
        raise


def _job_options(system: str, options: Mapping[str, Any], own: Mapping[str, Any], shared: Path) -> dict[str, Any]:
    logs = shared / LOGS
    made = dict(own)
    if system == "oar":  # dask-jobqueue does not set the output files of OAR jobs
        made["job_extra_directives"] = [
            *own["job_extra_directives"],
            f"-O {logs}/%jobid%.out",
            f"-E {logs}/%jobid%.err",
        ]
    return {
        "cores": options["cores"],
        "memory": f"{options['memory_bytes']}B",
        "processes": 1,
        # Replace the shell, which would not pass on the batch system's signals.
        "python": f"exec {options['python'] or sys.executable}",
        "worker_command": WORKER,
        "worker_extra_args": ["--settings", str(shared / SETTINGS)],
        "job_name": "jupyter-dtf",
        "log_directory": str(logs),
        "death_timeout": PATIENCE_S,
        **made,
    }


def _listen_at(options: Mapping[str, Any]) -> str:
    if not options["interface"]:
        return str(get_ip())
    try:
        return str(get_ip_interface(options["interface"]))
    except (KeyError, ValueError) as error:
        raise InvalidInput(
            f"The network interface must exist on this machine, got {options['interface']!r} ({error})",
            field="options.interface",
        ) from None


def _shared(options: Mapping[str, Any]) -> Path:
    if not options["shared_directory"]:
        return paths.jobs_dir()
    return Path(os.path.expandvars(options["shared_directory"])).expanduser() / ".jupyter_dtf-jobs"


def _prepare(options: Mapping[str, Any], security: Any, token: str) -> tuple[Path, int]:
    """Create this cluster's directory in the shared directory, and remove the directories of dead clusters.

    Return the directory, and a descriptor that claims it until it is closed. Raises Unavailable.
    """
    parent = _shared(options)
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in parent.iterdir():
            with contextlib.suppress(OSError):
                cluster_processes.sweep_one(left)
        shared = parent / token
        claim = cluster_processes.claim(shared)
        (shared / LOGS).mkdir()
        settings = shared / SETTINGS
        settings.touch(mode=0o600)
        settings.write_text(json.dumps(node_settings(security, token)))
    except OSError as error:
        raise Unavailable(f"The shared directory {parent} cannot be used: {error.strerror or error}") from None
    return shared, claim
