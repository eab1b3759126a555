"""``Servers``: bare TensorFlow servers on a cluster's tasks, for graphs that users place by hand."""

from __future__ import annotations

import contextlib
import gc
import logging
import socket
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..backend.task.ports.closed_ports import ClosedPorts
from ..errors import Conflict, InvalidInput
from ..schema.cluster import ClusterSpec, split_endpoint
from ..schema.run import TaskState
from .run import Run

if TYPE_CHECKING:
    from .run_trace import Trace

# TensorFlow's name for a process without a cluster. The client keeps it when it connects; otherwise the variables that
# it created before would belong to a task that no longer exists.
_CLIENT = "localhost"
logger = logging.getLogger(__name__)


class Servers:
    """A ``tf.distribute.Server`` in each task of a run, as ``cluster.servers()`` returns it.

    Any number of clients can use the servers at the same time, through sessions (``target``) or eagerly (``connect``).
    Methods and properties that need an endpoint wait until all servers accept connections. They raise RunFailed,
    RunStopped or ClusterLost if that never happens. The servers end with the ``with`` block.

    Attributes:
        run: The run whose tasks are the servers.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    # -- endpoints ----------------------------------------------------------------------------------------------

    @property
    def target(self) -> str:
        """The target for ``tf.compat.v1.Session``: the server of the first task, ``grpc://host:port``."""
        self.wait_ready()
        return f"grpc://{self.run.info.tasks[0].endpoint}"

    def targets(self, job: str = "worker") -> list[str]:
        """Return the targets of all servers of a job.

        Args:
            job: The name of the job.

        Returns:
            The targets (``grpc://host:port``), ordered by task index.

        Raises:
            InvalidInput: If there is no such job.
        """
        jobs = self.cluster_spec.jobs
        if job not in jobs:
            raise InvalidInput(f"`job` must be one of {', '.join(jobs)}, got {job!r}", field="job")
        return [f"grpc://{endpoint}" for endpoint in jobs[job].values()]

    @property
    def cluster_spec(self) -> ClusterSpec:
        """A ``dtf.ClusterSpec`` with the endpoint of every server."""
        self.wait_ready()
        jobs: dict[str, dict[int, str]] = {}
        for task in self.run.info.tasks:
            job, _, index = task.task.partition(":")
            jobs.setdefault(job, {})[int(index)] = task.endpoint
        return ClusterSpec(jobs)

    def wait_ready(self, timeout_s: float | None = None) -> Servers:
        """Wait until all servers accept connections.

        Args:
            timeout_s: The longest time to wait, in seconds. None: no limit.

        Returns:
            These servers.

        Raises:
            RunFailed: If a server could not start.
            RunStopped: If the run was stopped.
            Conflict: If the servers have ended.
            TimeoutError: If they do not all accept connections after ``timeout_s`` seconds.
        """
        info = self.run.wait_for(
            lambda info: (
                info.state.is_final
                or (bool(info.tasks) and all(task.state is TaskState.SERVING for task in info.tasks))
            ),
            timeout_s,
        )
        if info.state.is_final:
            self.run.raise_for_state()
            raise Conflict("The servers have ended")
        return self

    # -- use ----------------------------------------------------------------------------------------------------

    def connect(self) -> list[str]:
        """Connect this process to the servers, so that eager code and ``tf.function`` can use their devices.

        TensorFlow supports one such connection per process: connecting to other servers ends this one, as does
        ``close``. Local variables, models and functions survive this; tensors and variables on the servers do not.

        Returns:
            The device strings of the servers.

        Example:
            >>> devices = servers.connect()
            >>> with tf.device(devices[0]):
            ...     total = tf.reduce_sum(tensor)
        """
        global _connected
        import tensorflow as tf

        spec = self.cluster_spec
        if _connected is not self:
            jobs = spec.as_dict()
            host = address_towards(spec.endpoint(*next(iter(spec.tasks()))[:2]))
            _closed_ports()
            with _reserved_port(host) as port:
                jobs[_CLIENT] = [f"{host}:{port}"]
                tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec(jobs), job_name=_CLIENT)
                tf.config.list_logical_devices()  # starts the server if TensorFlow was not initialized yet
            _connected = self
        prefixes = tuple(f"/job:{job}/" for job in spec.jobs)
        return [device.name for device in tf.config.list_logical_devices() if device.name.startswith(prefixes)]

    def disconnect(self) -> None:
        """Undo ``connect``. Does nothing if this process is not connected to these servers."""
        global _connected
        if _connected is self:
            import tensorflow as tf

            _connected = None
            # With an empty cluster, TensorFlow would choose the port itself and sometimes lose it to another process.
            with _closed_ports().sealed(), _reserved_port("localhost") as port:
                alone = tf.train.ClusterSpec({_CLIENT: [f"localhost:{port}"]})
                tf.config.experimental_connect_to_cluster(alone, job_name=_CLIENT)

    def reset(self, containers: str | Sequence[str] | None = None) -> None:
        """Clear resource containers (their variables, queues and readers) on every server.

        Like ``tf.compat.v1.Session.reset``, this closes the sessions that are open at ``target``.

        Args:
            containers: The name or names of the containers. None or an empty list: the default container.
        """
        import tensorflow as tf

        tf.compat.v1.Session.reset(self.target, [containers] if isinstance(containers, str) else containers)

    def trace(
        self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, *, graph: Any = None, steps: int = 1
    ) -> Trace:
        """Run fetches of a ``tf.compat.v1`` graph in a new session and record which operations ran where.

        Args:
            fetches: Anything that ``tf.compat.v1.Session.run`` takes.
            feed_dict: Values for placeholders.
            steps: How many times to run the fetches.
            graph: The graph. None: the default graph.

        Returns:
            A trace with the values of the fetches, the operations of each step with device, start and duration, the
            transfers between tasks, and warnings about operations that did not run where they were placed.

        Raises:
            InvalidInput: If ``steps`` is invalid.
        """
        from .run_trace import trace_session

        return trace_session(self.target, fetches, feed_dict, graph=graph, steps=steps)

    def close(self) -> None:
        """End the servers and wait until they have ended. Does nothing if they have already ended.

        This process's sessions on the servers are closed first. Without their servers, the sessions would block
        forever, even when they are garbage-collected as the process exits.
        """
        self.disconnect()
        if "tensorflow" in sys.modules and not self.run.info.state.is_final:
            _close_sessions({f"grpc://{task.endpoint}".encode() for task in self.run.info.tasks})
        self.run.stop()
        self.run.wait()

    def __enter__(self) -> Servers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        info = self.run.info
        endpoints = [f"{task.task} at {task.endpoint}" for task in info.tasks if task.endpoint]
        return f"<Servers of {info.cluster}: {info.state.value}{', ' if endpoints else ''}{', '.join(endpoints)}>"


_connected: Servers | None = None
"""The servers that this process is connected to."""


def _close_sessions(targets: set[bytes]) -> None:
    """Close this process's open sessions at ``targets``. TensorFlow keeps no list of sessions."""
    import tensorflow as tf

    kinds = (tf.compat.v1.Session, tf.compat.v1.InteractiveSession)
    for session in [each for each in gc.get_objects() if issubclass(type(each), kinds)]:
        if session.sess_str in targets:  # None for a local session
            session.close()


@cache
def _closed_ports() -> ClosedPorts:
    """Return the guard for the servers that TensorFlow starts in this process whenever it connects."""
    ports = ClosedPorts(
        warn=lambda title, text: warnings.warn(f"{title}. {text}", UserWarning, stacklevel=2),
        on_refused=lambda who: logger.warning("A connection to TensorFlow's server here was refused: %s", who),
    )
    ports.install()
    return ports


@contextlib.contextmanager
def _reserved_port(host: str) -> Iterator[int]:
    """Reserve a free port until TensorFlow, which can share it, has bound it. Yields the port."""
    with socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET) as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("", 0))
        yield reserved.getsockname()[1]


def address_towards(endpoint: str) -> str:
    """Return the address at which the machine of ``endpoint`` can reach this one."""
    host, port = split_endpoint(endpoint)
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:  # connecting a datagram socket sends no packet
        probe.connect((host.strip("[]"), port))
        address: str = probe.getsockname()[0]
    return f"[{address}]" if family == socket.AF_INET6 else address
