"""Runs a plain TensorFlow server in this process, with the flags of TensorFlow's server program of 2016."""

from __future__ import annotations

import errno
import os
import sys
import threading
from collections.abc import Sequence

from .. import tensorflow_chatter
from ..backend.task.ports import gate
from ..backend.task.ports.closed_ports import ClosedPorts
from ..errors import InvalidInput, Unavailable
from ..schema.cluster import ClusterSpec, split_endpoint

LOCAL = "local"
"""The value of ``cluster_spec`` for a cluster that consists of only this process, at a free port."""


def find_task(cluster_spec: str, job_name: str = "", task_index: int | None = None) -> tuple[ClusterSpec, str, int]:
    """Return the cluster spec, and the job and the index of this server. Raises InvalidInput.

    ``job_name`` and ``task_index`` may be omitted if there is only one task.
    """
    spec = ClusterSpec.parse(cluster_spec)
    tasks = [(job, index) for job, index, _ in spec.tasks()]
    if len(tasks) == 1:
        job_name = job_name or tasks[0][0]
        task_index = tasks[0][1] if task_index is None else task_index
    if not job_name:
        raise InvalidInput(f"--job_name must be one of {', '.join(spec.jobs)}, got none", field="job_name")
    spec.endpoint(job_name, task_index or 0)  # raises if there is no such task
    return spec, job_name, task_index or 0


def serve(
    cluster_spec: str,
    job_name: str = "",
    task_index: int | None = None,
    *,
    gpu_memory_fraction: float = 1.0,
    verbose: bool = False,
    clients: Sequence[str] = (),
) -> None:
    """Serve until interrupted. Prints the server's target, ``grpc://host:port``, once it accepts connections.

    On this machine, processes of this user can connect to it; on the other machines of the ClusterSpec and those in
    ``clients``, any process can.

    Raises InvalidInput, KeyboardInterrupt, and Unavailable if TensorFlow is missing or its server cannot start.
    """
    if not 0 < gpu_memory_fraction <= 1:
        raise InvalidInput(
            f"--gpu_memory_fraction must be > 0 and <= 1, got {gpu_memory_fraction}",
            field="gpu_memory_fraction",
        )
    place = None if cluster_spec == LOCAL else find_task(cluster_spec, job_name, task_index)
    if verbose:
        tensorflow_chatter.speak()
    try:
        import tensorflow as tf
    except ImportError as error:
        raise Unavailable(f"A TensorFlow server requires TensorFlow: {error}") from None
    ports = ClosedPorts(
        warn=lambda title, text: print(f"{title}. {text}", file=sys.stderr, flush=True),
        on_refused=lambda who: print(f"A connection was refused ({who})", file=sys.stderr, flush=True),
    )
    ports.machines.extend(clients)
    ports.install()
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.per_process_gpu_memory_fraction = gpu_memory_fraction
    try:
        if place is None:
            server = tf.distribute.Server.create_local_server(config)
        else:
            spec, job, index = place
            _refuse_taken(split_endpoint(spec.endpoint(job, index))[1])
            server = tf.distribute.Server(spec.as_tf(), job_name=job, task_index=index, config=config)
    except (tf.errors.OpError, OSError) as error:
        where = "" if place is None else f" at {spec.endpoint(job, index)}"
        why = error.strerror if isinstance(error, OSError) else error.message
        raise Unavailable(f"TensorFlow's server cannot start{where}: {why}") from None
    if verbose:
        print(server.server_def, file=sys.stderr, flush=True)
    print(server.target, flush=True)
    threading.Event().wait()  # not server.join(), which never returns and would delay signals


def _refuse_taken(port: int) -> None:
    """Raise OSError if a process already listens on the port, because a guarded server would share the port."""
    if any(gate.listens(row, port) for row in gate.tables()):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
