"""Real TensorFlow processes without a cluster: forks of one warm process, each with a context, one thread each."""

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

sys.path.insert(0, str(Path(__file__).parents[5]))  # where the processes find this module, by its full name

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
"""What a gang finds imported. The server that forks it passes over names that it does not find: a test holds them."""

_processes.set_forkserver_preload(list(PRELOADED))

_servers: list[Any] = []
_lines: list[Any] = []
"""In a task: what the first one writes to, one for each of the others; and what each of those reads from."""
_pickling = threading.Lock()


@dataclass
class FakeContext:
    """What ``fit`` uses of a Context, keeping all that is said."""

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
    """How many of the tasks, the last ones by rank, are of the job ps."""
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
        """What ``make`` returns on the first task, which plays the client, for every task. Raises what it raises there.

        All tasks call it, equally often.
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
                with contextlib.suppress(BrokenPipeError):  # a task that has died says so by itself
                    line.send_bytes(message)
        if error is not None:
            raise error  # the others, too
        return bytes(made)

    @property
    def tasks(self) -> list[str]:
        workers = self.size - self.servers
        return [f"worker:{index}" for index in range(workers)] + [f"ps:{index}" for index in range(self.servers)]

    @property
    def gang(self) -> list[str]:
        """As ``tasks``: none is missing."""
        return self.tasks

    @property
    def stop_requested(self) -> threading.Event:
        """Nobody sets it: a task that is to stop is told by itself."""
        return threading.Event()

    @property
    def checkpoint_wanted(self) -> threading.Event:
        """Nobody sets it: no machine of a gang is to go."""
        return threading.Event()

    def __getstate__(self) -> dict[str, Any]:
        """Without what a server wants to hear of."""
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
        """This task's TensorFlow server, which is up until the gang has ended; ``join`` does not wait for that."""
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
    """``function(ctx)`` in ``size`` processes at once; their results by rank, None for one that died if it may.

    The last ``servers`` of them are of the job ps. ``machines``: where, by rank, they are to think that they are.

    Raises what the first of them to fail raised. None of the processes is left.
    """
    with Gang(size, function, servers, machines) as gang:
        return _collect(gang.started, may_die)


class Gang:
    """Processes that run a function, as ``run_gang`` has them, for as long as the context lasts."""

    def __init__(
        self, size: int, function: Callable[[Any], Any], servers: int = 0, machines: list[str] | None = None
    ) -> None:
        self._size = size
        self._payload = _by_value(function)
        self._servers = servers
        self._machines = machines or ["here"] * size
        self.started: list[Any] = []
        """By rank the process, and where its result will come from."""

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
            for line in lines:  # the first task's end is where the others notice it
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
    """A process that runs a function of a module, and has imported what the tasks of a gang have."""
    process = _processes.Process(target=function, args=args)
    process.start()
    return process


def _by_value(function: Callable[[Any], Any]) -> bytes:
    """The function with what it uses of its test module, which the processes need not be able to import."""
    module = sys.modules[function.__module__]
    with _pickling:  # two threads may have a gang each
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
    gc.freeze()  # as in the warm process: collecting garbage need not look through all of TensorFlow each time
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
        signal.pause()  # until run_gang ends it
    os._exit(0)


def optimize_graphs(on: bool) -> None:
    """Whether TensorFlow optimizes what is traced here from now on, for which it takes most of a small training's time.

    Users have it: so have tests on real clusters, and whole models of the matrix.
    """
    import tensorflow as tf

    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": not on})


def _reserve() -> socket.socket:
    """A port that stays ours until TensorFlow binds it too."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved


def divide_cpu(count: int) -> None:
    """Divide the CPU of this process into as many devices, before TensorFlow has started: one for each replica."""
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    if tf.config.get_logical_device_configuration(cpu) is None:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
