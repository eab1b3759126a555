"""Starts cluster processes, and previews requests. Imports neither Dask nor TensorFlow."""

from __future__ import annotations

import os
import secrets
import subprocess
import threading
import time
from dataclasses import dataclass

from ...errors import Conflict, DtfError, GangIncomplete, InvalidInput, Unavailable
from ...schema import private_files
from ...schema.api import ClusterState, FieldInfo, Preview, Problem
from ...schema.base import encode_json
from ...schema.cluster_request import ClusterRequest
from ...schema.hosts import HostDesign
from ..kinds import registry
from ..kinds.base import Kind
from ..machine import children, cluster_processes, paths
from ..machine.processes import signal_name, signal_words
from ..planning.launch_plan import HostLayout, crowding, expected_slots, plan, tf_configs
from . import connections
from .connections import Connection

_COLLECT_S = 2.0
_UNKNOWN = "was killed or has crashed"


@dataclass
class StartedCluster:
    """A cluster process that was just started.

    ``ready_fd`` becomes readable when the cluster is running or has failed.
    """

    connection: Connection
    ready_fd: int


def start(request: ClusterRequest) -> StartedCluster:
    """Start a cluster process and return immediately. Raises InvalidInput, NotFound, Conflict or Unavailable."""
    kind = registry.find_kind(request.kind)
    check_there(kind, request)
    paths.check_writable()
    token = secrets.token_hex(6)
    connection = Connection(
        name=request.name or connections.free_name(request.kind),
        kind=request.kind,
        state=ClusterState.STARTING,
        pid=0,
        pid_created=0.0,
        created=time.time(),
        jobs=dict(request.jobs),
        started_by=os.getpid(),
        token=token,
        directories=[str(parent / token) for parent in paths.family_parents()],
    )
    connection.is_of(os.getpid())  # the process id until the cluster process exists
    _reserve(connection, is_named=bool(request.name))
    ready_read, ready_write = os.pipe()
    try:
        with private_files.open_file(connections.log_of(connection.name)) as log:
            process = subprocess.Popen(
                children.command("jupyter_dtf.backend.cluster.cluster_process", connection.name, str(ready_write)),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[ready_write],
                start_new_session=True,
                env=cluster_processes.environment(token),
            )
    except OSError as error:
        connections.forget(connection.name)
        os.close(ready_read)
        raise Unavailable(f"The cluster process could not be started: {error}") from None
    finally:
        os.close(ready_write)
    connection.is_of(process.pid)
    connections.write(connection)
    assert process.stdin is not None
    with process.stdin as stdin:  # the process waits for this input; from now on, only it writes the file
        stdin.write(encode_json(request))
    # By design, the cluster process outlives this process, but while this one runs, it must collect the exit status.
    threading.Thread(target=_collect, args=(process,), name=f"dtf-cluster-{connection.name}", daemon=True).start()
    return StartedCluster(connection, ready_read)


def _reserve(connection: Connection, *, is_named: bool) -> None:
    """Reserve the cluster's name.

    If the user has not chosen it and another process has just taken it, try the next one.
    """
    while True:
        try:
            connections.reserve(connection)
            return
        except Conflict:
            if is_named:
                raise
            connection.name = connections.free_name(connection.kind)


_ends: dict[int, str] = {}
_end_noted = threading.Condition()


def _collect(process: subprocess.Popen[bytes]) -> None:
    status = process.wait()
    how = f"was killed ({signal_words(signal_name(-status))})" if status < 0 else f"exited with status {status}"
    with _end_noted:
        # 0 means that other code in this process has already reaped it: a cluster process that dies never exits with 0.
        _ends[process.pid] = how if status else _UNKNOWN
        _end_noted.notify_all()


def how_it_died(connection: Connection) -> str:
    """Return a predicate that says how a cluster process ended. Its exit status is known only to its parent."""
    if connection.has_lost_its_machine:
        return "ended when its machine was restarted"
    if connection.started_by != os.getpid():
        return _UNKNOWN
    with _end_noted:
        _end_noted.wait_for(lambda: connection.pid in _ends, _COLLECT_S)
        return _ends.get(connection.pid, _UNKNOWN)


def preview(request: ClusterRequest) -> Preview:
    """Return the ClusterSpec that a request would create, and the request's problems.

    Ports are 0, because each run picks its own.
    """
    spec, tf_config = tf_configs(request.jobs)
    problems, hosts = _problems(request)
    fields: list[FieldInfo] = []
    if not any(problem.field == "kind" or problem.field.startswith("options.") for problem in problems):
        fields, wrong = _more_fields(request)
        problems += wrong
    prevents = any(problem.field != "name" and problem.level == "error" for problem in problems)
    script = "" if prevents else _script(request)
    return Preview(cluster_spec=spec, tf_config=tf_config, problems=problems, hosts=hosts, script=script, fields=fields)


def _more_fields(request: ClusterRequest) -> tuple[list[FieldInfo], list[Problem]]:
    """Return a kind's additional fields, which depend on the options chosen so far, and problems with their values."""
    kind = registry.find_kind(request.kind)
    fields: list[FieldInfo] = []
    if not kind.has_more_fields:
        return fields, []
    options = registry.options_of(kind, request)
    try:
        fields = kind.more_fields(options)
        registry.check_more(kind, options, fields)
    except InvalidInput as error:
        return fields, [Problem(field=error.field, message=str(error))]
    return fields, []


def _script(request: ClusterRequest) -> str:
    kind = registry.find_kind(request.kind)
    return kind.script(registry.options_of(kind, request))


def check_there(kind: Kind, request: ClusterRequest) -> list[HostDesign]:
    """Check a request and return the hosts that the kind is expected to provide.

    Raises:
        InvalidInput: If the options are not valid for the kind.
        GangIncomplete: If the hosts do not fit the design.
        Unavailable: If the design uses a device that does not exist.
    """
    hosts = kind.expected_hosts(registry.options_of(kind, request))
    if hosts and request.hosts:
        plan(request.jobs, expected_slots(hosts), layout=HostLayout(request.hosts, request.tasks))
    return hosts


def _problems(request: ClusterRequest) -> tuple[list[Problem], list[HostDesign]]:
    """Return the problems of a request, and the hosts that the kind is expected to provide."""
    problems = []
    if request.name and (known := connections.read_all().get(request.name)) and known.is_alive:
        problems.append(
            Problem(field="name", message=f"`name` must be unused, but a cluster named {request.name!r} exists")
        )
    try:
        kind = registry.find_kind(request.kind)
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
        layout = HostLayout(request.hosts, request.tasks)
        if crowded := crowding(plan(request.jobs, expected_slots(hosts), layout=layout)):
            problems.append(Problem(field="jobs", message=crowded, level="warning"))
    return problems, hosts
