"""Puts every TensorFlow server in this process behind a guard (``guarded_port.py``), regardless of which code starts
it.

``tf.distribute.Server``, ``tf.config.experimental_connect_to_cluster`` and multi-process strategies all call one of a
few TensorFlow functions that take a serialized ServerDef. These functions are wrapped, so that access to the port is
restricted before the server starts. Then only this user's processes on this machine, and all users of the other
machines in the ServerDef, can connect.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import guarded_port

UNGUARDED = "Anyone who can reach this machine can use TensorFlow's servers"
SHARED = "TensorFlow's servers can be used from other machines"


def unguarded(why: str) -> str:
    """Return the warning for ports that cannot be guarded, with advice."""
    return (
        f"{why[:1].upper()}{why[1:]}. TensorFlow's servers listen on every interface without authentication: "
        "anyone who can reach such a port, including other users of this machine, can run graphs there, and read and "
        "write your files. Such ports are opened by in-graph training and pipelines over several tasks, by servers, "
        "and by programs that start TensorFlow servers, but not by all-reduce and parameter servers on one machine. "
        "Use a machine that nobody else uses, and keep its ports behind a firewall."
    )


def _shared(machines: Iterable[str]) -> str:
    return (
        f"Every user of {', '.join(machines)} can run graphs there, and read and write your files, because TensorFlow "
        "has no authentication. Other machines cannot connect, and on this machine only your own processes can. Use "
        "machines that nobody else uses, or a single machine."
    )


class ClosedPorts:
    """The guards of this process.

    ``warn(title, text)`` is called before the start of a server that others can reach. ``on_refused(who)`` is called in
    another thread, once for each user or address that was rejected.
    """

    def __init__(self, warn: Callable[[str, str], None], on_refused: Callable[[str], None]) -> None:
        self._warn = warn
        self._gate = guarded_port.Gate(on_refused)
        self._guards: dict[int, guarded_port.Guard] = {}
        self._open: set[int] = set()
        self._is_sealed = False
        self.machines: list[str] = []
        """Addresses of machines, in addition to those in the ServerDef, that may reach the servers."""

    def install(self) -> None:
        """Start guarding every server of this process."""
        # TensorFlow 2.21: servers that are started in C can be guarded nowhere else.
        from tensorflow.python import pywrap_tfe

        # TensorFlow 2.21: as above, for tf.distribute.Server.
        from tensorflow.python.client import pywrap_tf_session

        self._wrap(pywrap_tf_session, "TF_NewServer", 0)
        self._wrap(pywrap_tfe, "TFE_ContextSetServerDef", 2)
        self._wrap(pywrap_tfe, "TFE_ContextSetServerDefWithTimeoutAndRetries", 2)
        self._wrap(pywrap_tfe, "TFE_EnableCollectiveOps", 1)

    @contextlib.contextmanager
    def sealed(self) -> Iterator[None]:
        """Block access to all existing servers, which TensorFlow never stops, and to any started within the block."""
        for port in self._open:
            self._gate.shut(port)
        self._open.clear()
        self._is_sealed = True
        try:
            yield
        finally:
            self._is_sealed = False

    def _wrap(self, module: Any, name: str, place: int) -> None:
        """Wrap ``module.name``, which starts a server from the ServerDef in argument number ``place``."""
        start = getattr(module, name)

        def guarded(*args: Any) -> Any:
            definition, made = self._guarded(args[place])
            with guarded_port.reusing_ports():
                result = start(*args[:place], definition, *args[place + 1 :])
            if made is not None and not made.aim():
                self._warn(UNGUARDED, unguarded("the server does not listen where it was expected to"))
            return result

        setattr(module, name, guarded)

    def _guarded(self, serialized: bytes) -> tuple[bytes, guarded_port.Guard | None]:
        """Guard the port of a ServerDef. Returns the ServerDef, with a port filled in if it had none, and the guard."""
        from tensorflow.core.protobuf.tensorflow_server_pb2 import ServerDef

        definition = ServerDef.FromString(serialized)
        jobs = {job.name: dict(job.tasks) for job in definition.cluster.job}
        own = jobs.get(definition.job_name, {}).get(definition.task_index)
        if own is None:
            return serialized, None  # TensorFlow will report what is wrong with it
        if why := guarded_port.why_not():
            self._warn(UNGUARDED, unguarded(why))
            return serialized, None
        hosts = {endpoint.rpartition(":")[0] for tasks in jobs.values() for endpoint in tasks.values()}
        machines = [] if self._is_sealed else sorted(_elsewhere({*hosts, *self.machines}))
        if machines:
            self._warn(SHARED, _shared(machines))
        port = definition.port or int(own.rpartition(":")[2])
        made = self._guards.get(port)
        if made is None:
            made = guarded_port.Guard(port, machines)
            self._guards[made.port] = made
            definition.port = made.port
        if not self._is_sealed and made.port not in self._open:
            self._gate.open(made)
            self._open.add(made.port)
        return definition.SerializeToString(), made


def _elsewhere(hosts: Iterable[str]) -> set[str]:
    """Return the addresses of the hosts that are not this machine."""
    found = set()
    for host in hosts:
        with contextlib.suppress(OSError):  # an unknown name, which TensorFlow will report
            for family, _, _, _, address in socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM):
                if not _is_here(family, str(address[0])):
                    found.add(str(address[0]).partition("%")[0])
    return found


def _is_here(family: int, address: str) -> bool:
    with socket.socket(family) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
