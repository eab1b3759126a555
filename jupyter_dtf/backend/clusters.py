"""Starting a cluster process, and what a request would make. Imports neither Dask nor TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import psutil

from ..errors import DtfError, GangIncomplete, InvalidInput, Unavailable
from ..schema.api import ClusterRequest, ClusterState, Preview, Problem
from ..schema.base import encode_json
from ..schema.hosts import HostDesign
from . import connections, factories
from .connections import Connection
from .plan import Drawing, crowding, plan, promised_slots, tf_configs


@dataclass
class StartedCluster:
    """A cluster process that was just started. ``ready_fd`` becomes readable when it runs, or has failed."""

    connection: Connection
    ready_fd: int


def start(request: ClusterRequest) -> StartedCluster:
    """Start a cluster process and return at once. Raises InvalidInput, NotFound, Conflict or Unavailable."""
    kind = factories.find_kind(request.kind)
    check_there(kind, request)
    me = psutil.Process()
    connection = Connection(
        name=request.name or connections.free_name(request.kind),
        kind=request.kind,
        state=ClusterState.STARTING,
        pid=me.pid,  # until there is a cluster process
        pid_created=me.create_time(),
        created=time.time(),
        jobs=dict(request.jobs),
    )
    connections.reserve(connection)
    ready_read, ready_write = os.pipe()
    try:
        with connections.open_private(connections.log_of(connection.name)) as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "jupyter_dtf.backend.cluster_process", connection.name, str(ready_write)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[ready_write],
                start_new_session=True,
            )
    except OSError as error:
        connections.forget(connection.name)
        os.close(ready_read)
        raise Unavailable(f"The cluster process could not be started: {error}") from None
    finally:
        os.close(ready_write)
    connection.pid = process.pid
    connection.pid_created = psutil.Process(process.pid).create_time()
    connections.write(connection)
    assert process.stdin is not None
    with process.stdin as stdin:  # it waits for this, so that from now on it alone writes the file
        stdin.write(encode_json(request))
    # It outlives us by design; while we live somebody must collect its exit status.
    threading.Thread(target=process.wait, name=f"dtf-cluster-{connection.name}", daemon=True).start()
    return StartedCluster(connection, ready_read)


def preview(request: ClusterRequest) -> Preview:
    """The ClusterSpec that a request would make, and what is wrong with it. Ports are 0: a run chooses its own."""
    spec, tf_config = tf_configs(request.jobs)
    problems, hosts = _problems(request)
    return Preview(cluster_spec=spec, tf_config=tf_config, problems=problems, hosts=hosts)


def check_there(kind: factories.Kind, request: ClusterRequest) -> list[HostDesign]:
    """The hosts that the kind promises, once it is sure that it can be as it was drawn.

    Raises InvalidInput for options that the kind does not have, Unavailable for a device that was drawn and is not
    there.
    """
    hosts = kind.promised(factories.options_of(kind, request))
    if hosts and request.hosts:
        plan(request.jobs, promised_slots(hosts), drawing=Drawing(request.hosts, request.tasks))
    return hosts


def _problems(request: ClusterRequest) -> tuple[list[Problem], list[HostDesign]]:
    """What is wrong with a request, and the hosts that there would be."""
    problems = []
    if request.name and (known := connections.read_all().get(request.name)) and known.is_alive:
        problems.append(Problem(field="name", message=f"There is a cluster of that name: {request.name}"))
    try:
        kind = factories.find_kind(request.kind)
    except DtfError as error:
        return [*problems, Problem(field="kind", message=str(error))], []
    try:
        hosts = check_there(kind, request)
    except InvalidInput as error:
        return [*problems, Problem(field=error.field, message=str(error))], []
    except GangIncomplete as error:
        return [*problems, Problem(field="hosts", message=str(error))], []
    except Unavailable as error:
        chips = [f"tasks[{number}].device" for number, place in enumerate(request.tasks) if place.task == error.task]
        return [*problems, Problem(field=chips[0] if chips else "tasks", message=str(error))], []
    if hosts:
        drawing = Drawing(request.hosts, request.tasks)
        if crowded := crowding(plan(request.jobs, promised_slots(hosts), drawing=drawing)):
            problems.append(Problem(field="jobs", message=crowded, level="warning"))
    return problems, hosts
