"""Real TensorFlow processes without a cluster: forks of one warm process, each with a context and a single thread."""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle

from jupyter_dtf.schema.checkpoint import CheckpointInfo
from jupyter_dtf.schema.cluster import ClusterSpec

from ...patience import left_s

sys.path.insert(0, str(Path(__file__).parents[5]))  # so that the processes can import this module by its full name

_processes = multiprocessing.get_context("forkserver")
PRELOADED = (
    *("numpy", "sklearn.datasets", "tensorflow", "keras", "jupyter_dtf.client.fit"),
    *("jupyter_dtf.backend.task.process", "jupyter_dtf.backend.task.collectives.shared_memory"),
    *(
        f"jupyter_dtf.backend.task.fit.{name}"
        for name in (
            *("allreduce.rehearsal", "allreduce.training", "in_graph.training", "pipeline.training"),
            *("parameter_server.server", "parameter_server.worker"),
        )
    ),
)
"""The modules that the tasks of a gang find imported. The server that forks them ignores names that it does not find,
so a test checks these names.
"""

_processes.set_forkserver_preload(list(PRELOADED))

_servers: list[Any] = []
_lines: list[Any] = []
"""In the first task, the connections to the other tasks, to which it writes. In each other task, the one connection
that it reads from.
"""
_pickling = threading.Lock()


@dataclass
class FakeContext:
    """The part of a Context that ``fit`` uses. It records everything that is reported."""

    rank: int
    size: int
    shared_dir: Path
    run_dir: Path
    machines: list[str]
    should_stop: bool = False
    points: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    notes: list[tuple[str, str, str]] = field(default_factory=list)
    epochs: list[tuple[int, int, dict[str, float]]] = field(default_factory=list)
    progressed: list[tuple[int, int]] = field(default_factory=list)
    stop_at_step: int = 0
    tracer: Any = None
    servers: int = 0
    """The number of tasks of the job ps. They have the highest ranks."""
    secret: str = "5e" * 32
    links: list[str] = field(default_factory=list)
    between_machines: str = "tcp"
    figures: list[dict[str, float]] = field(default_factory=list)
    run_id: str = "0-gang"
    attempt: int = 1
    goes_on_from: str = ""
    rejoins: bool = False
    without: frozenset[str] = frozenset()
    saved: list[CheckpointInfo] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)

    def by_one_client(self, make: Callable[[], bytes]) -> bytes:
        """Call ``make`` on the first task, which acts as the client. Return its result, or raise its exception, in
        every task.

        All tasks must call this equally often.
        """
        if self.rank:
            try:
                made, error = cloudpickle.loads(_lines[0].recv_bytes())
            except EOFError:
                raise RuntimeError("worker:0, which plays the client, has gone") from None
        else:
            try:
                made, error = make(), None
            except Exception as raised:
                made, error = b"", raised
            message = cloudpickle.dumps((made, error))
            for line in _lines:
                with contextlib.suppress(BrokenPipeError):  # the death of a task is detected elsewhere
                    line.send_bytes(message)
        if error is not None:
            raise error  # in the other tasks, too
        return bytes(made)

    @property
    def tasks(self) -> list[str]:
        workers = self.size - self.servers
        return [f"worker:{index}" for index in range(workers)] + [f"ps:{index}" for index in range(self.servers)]

    @property
    def gang(self) -> list[str]:
        """The same as ``tasks``: no task is missing."""
        return self.tasks

    @property
    def stop_requested(self) -> threading.Event:
        """An event that nobody sets: a task that has to stop sets ``should_stop`` itself."""
        return threading.Event()

    @property
    def checkpoint_wanted(self) -> threading.Event:
        """An event that nobody sets: no machine of a gang is about to be taken away."""
        return threading.Event()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the function that a parameter server sets in order to be notified."""
        return {name: value for name, value in vars(self).items() if name != "on_without"}

    @property
    def is_chief(self) -> bool:
        return self.rank == 0

    @property
    def job_name(self) -> str:
        return self.task.partition(":")[0]

    @property
    def task_index(self) -> int:
        return int(self.task.partition(":")[2])

    @property
    def task(self) -> str:
        return self.tasks[self.rank]

    @property
    def cluster_spec(self) -> ClusterSpec:
        return ClusterSpec.parse(os.environ["TF_CONFIG"])

    @property
    def server(self) -> Any:
        """This task's TensorFlow server, which runs until the gang has ended. Its ``join`` returns immediately."""
        if not _servers:
            import tensorflow as tf

            _servers.append(tf.distribute.Server(self.cluster_spec.as_tf(), "worker", self.rank))
        return SimpleNamespace(target=_servers[0].target, join=lambda: None)

    def report(self, step: float | None = None, **metrics: float) -> None:
        assert step is not None and all(isinstance(v, float) for v in metrics.values()), metrics
        self.points.append((step, metrics))
        if self.stop_at_step and step >= self.stop_at_step:
            self.should_stop = True

    def note(self, level: str, title: str, text: str = "", *, mark: str = "") -> None:
        self.notes.append((level, title, text))

    @property
    def last_step(self) -> float:
        return self.points[-1][0] if self.points else -1.0

    def measured(self, figures: Mapping[str, float]) -> None:
        self.figures.append(dict(figures))

    def progress(self, done: int, total: int = 0, unit: str = "step", epoch: int = 0, epochs: int = 0) -> None:
        self.progressed.append((done, total))

    def epoch_ended(self, epoch: int, step: int, logs: dict[str, float]) -> None:
        self.epochs.append((epoch, step, logs))

    def checkpoint_saved(self, info: CheckpointInfo, removed: list[int]) -> None:
        self.saved.append(info)
        self.removed += removed

    def shard(self, dataset: Any) -> Any:
        return dataset.shard(self.size, self.rank)


def run_gang(
    size: int,
    function: Callable[[Any], Any],
    may_die: bool = False,
    servers: int = 0,
    machines: list[str] | None = None,
) -> list[Any]:
    """Call ``function(ctx)`` in ``size`` processes at the same time. Return the results in rank order.

    If ``may_die``, the result of a process that has died is None. The last ``servers`` processes are of the job ps.
    ``machines`` contains the machine that each process considers itself to be on, in rank order.

    Raises the exception of the first process that fails. All processes have ended when this function returns.
    """
    with Gang(size, function, servers, machines) as gang:
        return _collect(gang.started, may_die)


class Gang:
    """The processes in which ``run_gang`` calls a function. They are killed at the end of the context."""

    def __init__(
        self, size: int, function: Callable[[Any], Any], servers: int = 0, machines: list[str] | None = None
    ) -> None:
        self._size = size
        self._payload = _by_value(function)
        self._servers = servers
        self._machines = machines or ["here"] * size
        self.started: list[Any] = []
        """In rank order: the process, and the connection that delivers its result."""

    def __enter__(self) -> Gang:
        self._directory = directory = Path(tempfile.mkdtemp(prefix="jupyter_dtf-test-", dir="/dev/shm"))
        self._reserved = [_reserve() for _ in range(2 * self._size)]
        addresses = [f"127.0.0.1:{reserved.getsockname()[1]}" for reserved in self._reserved]
        endpoints, links = addresses[: self._size], addresses[self._size :]
        ends = [_processes.Pipe(duplex=False) for _ in range(1, self._size)]
        for rank in range(self._size):
            here, there = _processes.Pipe(duplex=False)
            lines = [ends[rank - 1][0]] if rank else [writes for _, writes in ends]
            ctx = FakeContext(
                rank, self._size, directory, directory, self._machines, servers=self._servers, links=links
            )
            process = _processes.Process(target=_task, args=(there, self._payload, ctx, endpoints, lines), daemon=True)
            process.start()
            there.close()
            for line in lines:  # the others notice the end of the first task only if no copy stays open
                line.close()
            self.started.append((process, here))
        return self

    def __exit__(self, *error: object) -> None:
        for process, here in self.started:
            process.kill()
            process.join()
            here.close()
        for reserved in self._reserved:
            reserved.close()
        shutil.rmtree(self._directory)


def forked(function: Callable[..., None], *args: Any) -> Any:
    """Start a process that runs a function of a module and finds the same modules imported as the tasks of a gang."""
    process = _processes.Process(target=function, args=args)
    process.start()
    return process


def _by_value(function: Callable[[Any], Any]) -> bytes:
    """Pickle a function together with what it uses from its test module, which the processes need not be able to
    import.
    """
    module = sys.modules[function.__module__]
    with _pickling:  # each of two threads may start a gang
        cloudpickle.register_pickle_by_value(module)
        try:
            return bytes(cloudpickle.dumps(function))
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def _collect(started: list[Any], may_die: bool) -> list[Any]:
    results: dict[int, Any] = {}
    while len(results) < len(started):
        waiting = [conn for rank, (_, conn) in enumerate(started) if rank not in results]
        ready = multiprocessing.connection.wait(waiting, timeout=left_s())
        if not ready:
            raise TimeoutError(f"Of {len(started)} tasks these have ended: {sorted(results)}")
        for rank, (process, conn) in enumerate(started):
            if conn in ready:
                try:
                    ok, value = cloudpickle.loads(conn.recv_bytes())
                except EOFError:
                    process.join()
                    if may_die:
                        results[rank] = None
                        continue
                    raise RuntimeError(f"rank {rank} died with exit code {process.exitcode}") from None
                if not ok:
                    error, text = value
                    raise error from RuntimeError(f"on rank {rank}:\n{text}")
                results[rank] = value
    return [results[rank] for rank in range(len(started))]


def _task(conn: Any, payload: bytes, ctx: FakeContext, endpoints: list[str], lines: list[Any]) -> None:
    _lines[:] = lines
    gc.freeze()  # as in the warm process: the garbage collector need not scan all of TensorFlow each time
    gc.set_threshold(50_000, 20, 20)
    jobs: dict[str, list[str]] = {}
    for task, endpoint in zip(ctx.tasks, endpoints, strict=True):
        jobs.setdefault(task.partition(":")[0], []).append(endpoint)
    os.environ["TF_CONFIG"] = json.dumps({"cluster": jobs, "task": {"type": ctx.job_name, "index": ctx.task_index}})
    os.environ["TF_GRPC_REUSE_PORT"] = "1"
    from jupyter_dtf.backend.task.tf_servers import serves_collectives

    try:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        optimize_graphs(False)
        answer = (True, cloudpickle.loads(payload)(ctx))
    except BaseException as error:
        answer = (False, (error, traceback.format_exc()))
    conn.send_bytes(cloudpickle.dumps(answer))
    conn.close()
    if _servers or (answer[0] and serves_collectives()):
        signal.pause()  # until the gang is closed
    os._exit(0)


def optimize_graphs(on: bool) -> None:
    """Set whether TensorFlow optimizes the functions that are traced in this process from now on. Optimizing takes most
    of the time of a small training run.

    Users have this optimization, and so do tests on real clusters and the whole models of the matrix.
    """
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not on})


def _reserve() -> socket.socket:
    """Reserve a port until TensorFlow binds it, too."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def divide_cpu(count: int) -> None:
    """Divide this process's CPU into ``count`` devices, one for each replica. Must be called before TensorFlow has
    started.
    """
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    if tf.config.get_logical_device_configuration(cpu) is None:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
