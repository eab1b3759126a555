"""A plain TensorFlow server in this process, with the flags of TensorFlow's own server program of 2016."""

from __future__ import annotations

import os
import sys
import threading

from ..errors import InvalidInput, Unavailable
from ..schema.cluster import ClusterSpec

LOCAL = "local"
"""In place of a ClusterSpec: a cluster of this process alone, at a free port."""


def find_task(cluster_spec: str, job_name: str = "", task_index: int | None = None) -> tuple[ClusterSpec, str, int]:
    """The cluster and this server's place in it. A cluster of one task needs no place. Raises InvalidInput."""
    spec = ClusterSpec.parse(cluster_spec)
    tasks = [(job, index) for job, index, _ in spec.tasks()]
    if len(tasks) == 1:
        job_name = job_name or tasks[0][0]
        task_index = tasks[0][1] if task_index is None else task_index
    if not job_name:
        raise InvalidInput(f"The job is one of {', '.join(spec.jobs)}. Received none", field="job_name")
    spec.endpoint(job_name, task_index or 0)  # raises for one that is not there
    return spec, job_name, task_index or 0


def serve(
    cluster_spec: str,
    job_name: str = "",
    task_index: int | None = None,
    *,
    gpu_memory_fraction: float = 1.0,
    verbose: bool = False,
) -> None:
    """Serve until interrupted. Prints the server's target, ``grpc://host:port``, when it serves.

    Raises InvalidInput, Unavailable if TensorFlow is not there or its server cannot start, KeyboardInterrupt.
    """
    if not 0 < gpu_memory_fraction <= 1:
        raise InvalidInput(
            f"gpu_memory_fraction is more than 0 and at most 1. Received: {gpu_memory_fraction}",
            field="gpu_memory_fraction",
        )
    place = None if cluster_spec == LOCAL else find_task(cluster_spec, job_name, task_index)
    if not verbose:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tensorflow as tf
    except ImportError as error:
        raise Unavailable(f"A TensorFlow server needs TensorFlow: {error}") from None
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.per_process_gpu_memory_fraction = gpu_memory_fraction
    try:
        if place is None:
            server = tf.distribute.Server.create_local_server(config)
        else:
            spec, job, index = place
            server = tf.distribute.Server(spec.as_tf(), job_name=job, task_index=index, config=config)
    except tf.errors.OpError as error:
        where = "" if place is None else f" at {spec.endpoint(job, index)}"
        raise Unavailable(f"TensorFlow's server cannot start{where}: {error.message}") from None
    if verbose:
        print(server.server_def, file=sys.stderr, flush=True)
    print(server.target, flush=True)
    threading.Event().wait()  # not server.join(): a signal would wait for it, and it never returns
