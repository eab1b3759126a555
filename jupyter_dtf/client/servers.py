"""``Servers``: bare TensorFlow servers on a cluster's tasks, for graphs that are placed by hand."""

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

# TensorFlow's name for a process that has no cluster. The client keeps it when it connects, or the variables that it
# has made before would belong to a task that is no more.
_CLIENT = "localhost"
logger = logging.getLogger(__name__)


class Servers:
    """A ``tf.distribute.Server`` in each task of a run, from ``cluster.servers()``; they end with the ``with`` block.

    Any number of clients may use them at the same time, by sessions (``target``) or eagerly (``connect``): processes of
    this user on the servers' machines, and whoever is on other machines that they have been told of. What needs an
    endpoint waits until all serve, and raises RunFailed, RunStopped or ClusterLost if they do not.
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    # -- where they are -----------------------------------------------------------------------------------------

    @property
    def target(self) -> str:
        """What a ``tf.compat.v1.Session`` connects to: the server of the first task, ``grpc://host:port``."""
        self.wait_ready()
        return f"grpc://{self.run.info.tasks[0].endpoint}"

    def targets(self, job: str = "worker") -> list[str]:
        """The targets of all servers of a job, by task index. Raises InvalidInput if there is no such job."""
        jobs = self.cluster_spec.jobs
        if job not in jobs:
            raise InvalidInput(f"The servers' jobs are {', '.join(jobs)}. Received: {job!r}", field="job")
        return [f"grpc://{endpoint}" for endpoint in jobs[job].values()]

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The endpoint of every server."""
        self.wait_ready()
        jobs: dict[str, dict[int, str]] = {}
        for task in self.run.info.tasks:
            job, _, index = task.task.partition(":")
            jobs.setdefault(job, {})[int(index)] = task.endpoint
        return ClusterSpec(jobs)

    def wait_ready(self, timeout_s: float | None = None) -> Servers:
        """Wait until all of them serve. Raises TimeoutError, and what a run raises that does not start."""
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

    # -- what to do with them -----------------------------------------------------------------------------------

    def connect(self) -> list[str]:
        """Make their devices known to this process, for eager code and ``tf.function``. Returns the device strings.

        TensorFlow has one such connection per process: connecting to other servers ends this one, and ``close`` does.
        What stays local (variables, models, functions) outlives that; tensors and variables on the servers do not.
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
                tf.config.list_logical_devices()  # which starts the server, if TensorFlow had not begun yet
            _connected = self
        prefixes = tuple(f"/job:{job}/" for job in spec.jobs)
        return [device.name for device in tf.config.list_logical_devices() if device.name.startswith(prefixes)]

    def disconnect(self) -> None:
        """Undo ``connect``. Does nothing where this process is not connected to these servers."""
        global _connected
        if _connected is self:
            import tensorflow as tf

            _connected = None
            # Of an empty cluster TensorFlow would choose the port itself, and lose it to another process now and then.
            with _closed_ports().sealed(), _reserved_port("localhost") as port:
                alone = tf.train.ClusterSpec({_CLIENT: [f"localhost:{port}"]})
                tf.config.experimental_connect_to_cluster(alone, job_name=_CLIENT)

    def reset(self, containers: str | Sequence[str] | None = None) -> None:
        """Clear resource containers on every server: the variables, queues and readers made in them.

        None, or an empty list, is the default container: what was made in no other. Sessions that are open at
        ``target`` are closed by it, as by ``tf.compat.v1.Session.reset``.
        """
        import tensorflow as tf

        tf.compat.v1.Session.reset(self.target, [containers] if isinstance(containers, str) else containers)

    def trace(
        self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None, *, graph: Any = None, steps: int = 1
    ) -> Trace:
        """Run ``fetches`` of a ``tf.compat.v1`` graph (None: the default one) and record what ran where.

        In a session of its own: variables are those that the servers hold. The result has the values, the operations
        of each step with device, start and duration, transfers between tasks, and warnings about operations that did
        not run where they were placed.
        """
        from .run_trace import trace_session

        return trace_session(self.target, fetches, feed_dict, graph=graph, steps=steps)

    def close(self) -> None:
        """End the servers and wait until they have ended. Does nothing to those that have.

        This process's sessions on them are closed first: without their servers they would wait for ever, those that
        are forgotten at the process's end.
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
"""The servers whose devices this process knows."""


def _close_sessions(targets: set[bytes]) -> None:
    """Close the open sessions of this process at ``targets``. TensorFlow keeps no list of them."""
    import tensorflow as tf

    kinds = (tf.compat.v1.Session, tf.compat.v1.InteractiveSession)
    for session in [each for each in gc.get_objects() if issubclass(type(each), kinds)]:
        if session.sess_str in targets:  # None for a session of this process alone
            session.close()


@cache
def _closed_ports() -> ClosedPorts:
    """What guards the servers that TensorFlow starts in this process: one for each time that it connects."""
    ports = ClosedPorts(
        warn=lambda title, text: warnings.warn(f"{title}. {text}", UserWarning, stacklevel=2),
        on_refused=lambda who: logger.warning("A connection to TensorFlow's server here was turned away: %s", who),
    )
    ports.install()
    return ports


@contextlib.contextmanager
def _reserved_port(host: str) -> Iterator[int]:
    """A free port that nobody gets before TensorFlow, which shares it."""
    with socket.socket(socket.AF_INET6 if host.startswith("[") else socket.AF_INET) as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("", 0))
        yield reserved.getsockname()[1]


def address_towards(endpoint: str) -> str:
    """The address by which the machine of ``endpoint`` can reach this one."""
    host, port = split_endpoint(endpoint)
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:  # connecting a datagram socket sends nothing
        probe.connect((host.strip("[]"), port))
        address: str = probe.getsockname()[0]
    return f"[{address}]" if family == socket.AF_INET6 else address
