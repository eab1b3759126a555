"""The WorkerPlugin: makes a Dask worker a host for tasks. Starts them from the warm process, carries what they say."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import psutil
from distributed import Worker
from distributed.diagnostics.plugin import WorkerPlugin

from ..errors import Unavailable
from ..schema.api import HostInfo
from ..schema.base import to_plain
from ..schema.launch import TaskResult, TaskSpec, read_outcome
from . import places
from .gpus import read_gpus
from .host_task import HostTask
from .warm_client import LOG, WarmClient, start_warm, wait_for_end

logger = logging.getLogger(__name__)

SAMPLE_INTERVAL_S = 2.0
"""Between two readings of the CPU time and memory of the host and its tasks."""


class _RunOnHost:
    """What a run has here: reserved ports, its payload's directory, its tasks by name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ports: dict[str, socket.socket] = {}
        self.tasks: dict[str, HostTask] = {}
        self.ended: set[str] = set()


class Host(WorkerPlugin):
    """Runs tasks of the cluster ``token`` on this Dask worker."""

    name = "jupyter_dtf"

    def __init__(self, token: str, cluster: str) -> None:
        self._token = token
        self._cluster = cluster

    # -- living in the worker -----------------------------------------------------------------------------------

    async def setup(self, worker: Worker) -> None:
        self._worker = worker
        self._directory = places.machine_dir(self._token)
        self._shared = places.shared_memory_dir(self._token)
        self._runs: dict[str, _RunOnHost] = {}
        self._warm: WarmClient | None = None
        self._lifeline: Any = None
        self._warm_failure = ""
        self._warm_pid = 0
        self._warm_ready = asyncio.Event()
        self._process = psutil.Process()
        self._cpu_seconds: dict[int, float] = {}
        self._shared_bytes: dict[int, int] = {}
        worker.handlers.update(
            dtf_prepare=self.prepare,
            dtf_reserve=self.reserve,
            dtf_launch=self.launch,
            dtf_stop=self.stop,
            dtf_work_done=self.work_done,
            dtf_kill=self.kill,
            dtf_release=self.release,
        )
        self._background = [
            asyncio.create_task(self._keep_warm()),
            asyncio.create_task(self._sample()),
        ]

    async def teardown(self, worker: Worker) -> None:
        for task in self._background:
            task.cancel()
        if self._warm is not None:
            await self._warm.close()
        for run_id in list(self._runs):
            self._drop(run_id)
        if self._lifeline is not None:
            self._lifeline.stdin.close()

    async def _keep_warm(self) -> None:
        """Be connected to this machine's warm process; where there is none, start it."""
        try:
            await asyncio.to_thread(wait_for_end, self._warm_pid)
            started = await asyncio.to_thread(start_warm, self._directory, self._shared)
            self._lifeline = started or self._lifeline
            self._warm = await WarmClient.connect(self._directory, self._on_warm, self._on_warm_lost)
        except OSError as error:
            self._warm_failed(f"The warm process could not be started: {error}")
        self._tell()

    def _on_warm(self, message: dict[str, Any]) -> None:
        match message["op"]:
            case "ready":
                self._warm_failure = ""
                self._warm_pid = message["pid"]
                self._warm_ready.set()
                self._tell()
            case "failed":
                self._warm_failed(f"TensorFlow could not be imported on this machine: {message['message']}")
            case "forked":
                if (task := self._task(message["id"])) is not None:
                    task.pid = message["pid"]
                    if not task.forked.done():
                        task.forked.set_result(message["pid"])
            case "exited":
                self._on_exit(message["id"], message["status"])

    def _warm_failed(self, why: str) -> None:
        self._warm_failure = why
        self._warm_ready.set()
        logger.error("%s (its output: %s)", why, self._directory / LOG)

    def _on_warm_lost(self) -> None:
        """The warm process is gone, and with it every task: the kernel killed them with their parent."""
        self._warm = None
        was_ready = self._warm_ready.is_set()
        for run in list(self._runs.values()):
            for task in run.tasks.values():
                if task.id not in run.ended:
                    self._on_exit(task.id, signal.SIGKILL)
        if was_ready:
            self._warm_ready.clear()
            self._background.append(asyncio.create_task(self._keep_warm()))
        else:
            self._warm_failed("The warm process ended while it imported TensorFlow")

    # -- what the controller asks -------------------------------------------------------------------------------

    def prepare(self, threads: int, count: int) -> None:
        """Be ready for a training with so many tasks here, of so many threads each."""
        if self._warm is not None and not read_gpus():  # a spare would start TensorFlow on GPUs that are not its own
            self._warm.prepare(threads, count)

    async def reserve(self, run_id: str, tasks: list[str], ready: bool) -> dict[str, str]:
        """Bind a port for each task; with ``ready``, wait until tasks can be forked. Returns each task's endpoint.

        The ports stay bound, with SO_REUSEPORT, until the run is released or reserves again: nobody else gets them
        before TensorFlow binds them too.
        """
        self._drop(run_id)
        # Its own, for several hosts of a machine may have tasks of the run.
        run = self._runs[run_id] = _RunOnHost(self._directory / f"{run_id}-{os.getpid()}")
        address = self._worker.address.split("://", 1)[1].rsplit(":", 1)[0]
        for task in tasks:
            holder = socket.socket(socket.AF_INET6 if address.startswith("[") else socket.AF_INET)
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            holder.bind(("", 0))
            run.ports[task] = holder
        if ready:
            await self._warm_ready.wait()
        if (ready and self._warm is None) or self._warm_failure:
            raise Unavailable(self._warm_failure or "The warm process of this machine is gone")
        return {task: f"{address}:{holder.getsockname()[1]}" for task, holder in run.ports.items()}

    async def launch(self, run_id: str, specs: list[bytes], payload: bytes) -> dict[str, str]:
        """Fork the tasks. Returns the process id of each, as text."""
        run = self._runs[run_id]
        run.directory.mkdir(mode=0o700)
        program = run.directory / "payload"
        await asyncio.to_thread(program.write_bytes, payload)
        shared = places.private_dir(self._shared / run_id)
        for data in specs:
            spec = msgspec.json.decode(data, type=TaskSpec)
            self._fork(run, spec, program, shared)
        pids = await asyncio.gather(*(task.forked for task in run.tasks.values()))
        return {name: str(pid) for name, pid in zip(run.tasks, pids, strict=True)}

    def _fork(self, run: _RunOnHost, spec: TaskSpec, program: Path, shared: Path) -> None:
        if self._warm is None:
            raise Unavailable("The warm process of this machine is gone")
        spec.payload = str(program)
        spec.shared_dir = str(shared)
        spec.task_dir = str(run.directory / spec.task.replace(":", "-"))
        task_dir = Path(spec.task_dir)
        task_dir.mkdir()
        spec_path = task_dir / "spec.json"
        spec_path.write_bytes(msgspec.json.encode(spec))
        task = HostTask(spec, f"{spec.run_id}/{spec.task}", lambda data: self._event(spec.run_id, data))
        run.tasks[spec.task] = task
        self._warm.fork(task.id, spec_path, task.descriptors, spec.threads if spec.may_be_spare else 0)
        task.hand_over()

    def stop(self, run_id: str) -> None:
        """Ask the run's programs to stop."""
        run = self._runs.get(run_id)
        for task in self._alive(run):
            task.ask_to_stop()

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

    def _kill_the_rest(self, run: _RunOnHost | None) -> None:
        for task in self._alive(run):
            self._signal(task, signal.SIGKILL)

    def _signal(self, task: HostTask, number: int) -> None:
        if self._warm is not None:
            self._warm.kill(task.id, number)

    def release(self, run_id: str) -> None:
        """Forget the run: its ports, its directories."""
        self._drop(run_id)

    # -- how tasks end ------------------------------------------------------------------------------------------

    def _on_exit(self, task_id: str, status: int) -> None:
        run_id, name = task_id.split("/", 1)
        run = self._runs.get(run_id)
        if run is None or task_id in run.ended:
            return
        run.ended.add(task_id)
        task = run.tasks[name]
        task.finish()
        for readings in (self._cpu_seconds, self._shared_bytes):
            readings.pop(task.pid, None)
        result = TaskResult(task=name, outcome=read_outcome(Path(task.spec.task_dir)))
        if os.WIFSIGNALED(status):
            result.signal = signal.Signals(os.WTERMSIG(status)).name
        else:
            result.exit_code = os.waitstatus_to_exitcode(status)
        message = {"op": "dtf_ended", "run_id": run_id, "result": msgspec.msgpack.encode(result)}
        self._send(message)

    def _drop(self, run_id: str) -> None:
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        for task in run.tasks.values():
            if task.id not in run.ended:
                self._signal(task, signal.SIGKILL)
                task.finish()
        for holder in run.ports.values():
            holder.close()
        shutil.rmtree(run.directory, ignore_errors=True)
        shutil.rmtree(self._shared / run_id, ignore_errors=True)

    def _alive(self, run: _RunOnHost | None) -> list[HostTask]:
        return [task for task in run.tasks.values() if task.id not in run.ended] if run is not None else []

    def _task(self, task_id: str) -> HostTask | None:
        run_id, name = task_id.split("/", 1)
        run = self._runs.get(run_id)
        return run.tasks.get(name) if run is not None else None

    # -- what the controller is told ----------------------------------------------------------------------------

    def _event(self, run_id: str, data: bytes) -> None:
        self._send({"op": "dtf_event", "run_id": run_id, "data": data})

    def _send(self, message: dict[str, Any]) -> None:
        with contextlib.suppress(Exception):  # the stream is closed: this worker is on its way out
            self._worker.batched_stream.send(message)

    def _tell(self, cpu: float = 0.0, memory_bytes: int = 0) -> None:
        limit = self._worker.memory_manager.memory_limit
        info = HostInfo(
            name=str(self._worker.name),
            address=self._worker.address,
            machine=places.machine_name(),
            threads=self._worker.state.nthreads,
            memory_bytes=int(limit or psutil.virtual_memory().total),
            cpu=cpu,
            memory_used_bytes=memory_bytes,
            gpus=read_gpus(),
            warm=self._warm is not None and self._warm_ready.is_set() and not self._warm_failure,
        )
        self._send({"op": "dtf_host", "info": to_plain(info)})

    async def _sample(self) -> None:
        """Read the load of the host and of each task; a reading needs time to pass, so this one thing has a rhythm."""
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(SAMPLE_INTERVAL_S)
            now = loop.time()
            cpu, memory = self._usage(self._process, now - before)
            for run in list(self._runs.values()):
                for task in self._alive(run):
                    if task.pid and (used := self._task_usage(task, now - before)):
                        cpu += used[0]
                        memory += used[1]
            before = now
            self._tell(round(cpu, 3), memory)

    def _task_usage(self, task: HostTask, seconds: float) -> tuple[float, int] | None:
        try:
            process = psutil.Process(task.pid)
            cpu, memory = self._usage(process, seconds)
        except psutil.Error:
            return None
        task.report(round(time.time() - process.create_time(), 1), {"cpu": round(cpu, 3), "memory_bytes": memory})
        return cpu, memory

    def _usage(self, process: psutil.Process, seconds: float) -> tuple[float, int]:
        """Cores in use since the last reading, and memory of its own in bytes.

        A fork shares most of its memory with the warm process. How much is asked once (the kernel takes ten
        milliseconds to find out) and left out from then on.
        """
        times = process.cpu_times()
        used = times.user + times.system
        cores = max(0.0, used - self._cpu_seconds.get(process.pid, used)) / seconds
        self._cpu_seconds[process.pid] = used
        resident = process.memory_info().rss
        if process.pid not in self._shared_bytes:
            full = process.memory_full_info()
            self._shared_bytes[process.pid] = full.rss - getattr(full, "pss", full.rss)
        return cores, max(0, resident - self._shared_bytes[process.pid])
