"""Starts the warm process of this machine, and holds a host's connection to it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...schema import private_files
from ...schema.launch import remove_runs_of
from ..machine import children, cluster_processes
from ..machine.processes import stat_of

logger = logging.getLogger(__name__)

SOCKET = "warm.sock"
LOG = "warm.log"
PID = "warm.pid"
"""The file with the warm process's id. The process that starts it writes the file, because the warm process does not
respond while it imports TensorFlow.
"""
_MAX_MESSAGE = 65_536
PING_S = 1.0
SILENT_S = 4.0
"""The time in seconds after which a warm process that has not responded is considered stopped. A running one has
nothing to do that takes so long.
"""


def start_warm(directory: Path, shared: Path) -> subprocess.Popen[bytes] | None:
    """Start the warm process that serves ``directory``, which is named after the cluster's token, unless one is
    running.

    It runs while its standard input (the returned process's ``stdin``, its lifeline) is open or a host is connected.
    When it ends, it removes ``directory`` and ``shared``, so that nothing is left behind, however the other processes
    ended. Processes left behind by an earlier warm process that was killed are ended first.

    Args:
        directory: The cluster's directory on this machine.
        shared: The tasks' shared directory in memory.

    Returns:
        The process, or None if one was already running.
    """
    path = directory / SOCKET
    token = directory.name
    with private_files.open_file(directory / "warm.lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _answers(path):
            return None
        path.unlink(missing_ok=True)
        cluster_processes.end(token, warm_only=True)
        _remove_runs_of_the_dead(directory, shared)
        claims: list[int] = []
        try:
            claims += [cluster_processes.claim(directory), cluster_processes.claim(shared)]
            with (
                socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener,
                private_files.open_file(directory / LOG, os.O_APPEND) as log,
            ):
                listener.bind(str(path))
                path.chmod(0o600)
                listener.listen(64)
                process = subprocess.Popen(
                    children.command(
                        "jupyter_dtf.backend.task.warm",
                        str(listener.fileno()),
                        ",".join(map(str, claims)),
                        str(directory),
                        str(shared),
                    ),
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    pass_fds=[listener.fileno(), *claims],
                    start_new_session=True,
                    env=cluster_processes.environment(token, warm=True),
                )
            private_files.write_file(directory / PID, str(process.pid).encode())
            return process
        finally:
            for claim in claims:  # the warm process has inherited them
                os.close(claim)


def _remove_runs_of_the_dead(directory: Path, shared: Path) -> None:
    """Remove run directories, ``<run>-<pid of its host>``, of hosts that ended while no warm process was running."""
    for path in directory.glob("[0-9]*-*"):
        pid = path.name.rpartition("-")[2]
        if pid.isdigit() and stat_of(int(pid)) is None:
            remove_runs_of(int(pid), directory, shared)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(str(path)) == 0


class WarmClient:
    """A host's connection to the warm process.

    ``on_message`` is called with each of the warm process's messages, and ``on_lost`` when the warm process is gone.
    """

    def __init__(
        self, connection: socket.socket, on_message: Callable[[dict[str, Any]], None], on_lost: Callable[[], None]
    ) -> None:
        self._socket = connection
        self._on_message = on_message
        self._on_lost = on_lost
        loop = asyncio.get_running_loop()
        self._heard = loop.time()
        self._pinging: asyncio.Task[None] | None = None
        self._reader = loop.create_task(self._read())

    def watch(self) -> None:
        """Start pinging the warm process. It has imported TensorFlow, so from now on it should always respond."""
        if self._pinging is None:
            self._heard = asyncio.get_running_loop().time()
            self._pinging = asyncio.get_running_loop().create_task(self._ping())

    @property
    def is_silent(self) -> bool:
        """Whether the warm process has stopped responding."""
        return self._pinging is not None and asyncio.get_running_loop().time() - self._heard > SILENT_S

    async def _ping(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            with contextlib.suppress(OSError):  # the warm process is gone, or is stopped and its queue is full
                self._socket.send(b'{"op": "ping"}')
            await asyncio.sleep(PING_S)
            late = loop.time() - before - PING_S
            if late > PING_S:  # this process itself was delayed and has not read messages
                self._heard += late

    @classmethod
    async def connect(
        cls, directory: Path, on_message: Callable[[dict[str, Any]], None], on_lost: Callable[[], None]
    ) -> WarmClient:
        """Connect to the warm process of ``directory``. Raises OSError if none is running."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, str(directory / SOCKET))
        except BaseException:
            connection.close()
            raise
        return cls(connection, on_message, on_lost)

    def fork(self, task_id: str, spec: Path, fds: list[int], spare: int = 0) -> None:
        """Request a new task.

        Args:
            task_id: The id of the task.
            spec: The path of its spec.
            fds: The file descriptors of its stdout, stderr, events and control pipes. The caller must close them.
            spare: The number of threads that the task will use. A spare process that has rehearsed with this number may
                become the task. 0: no rehearsed spare is used, only a plain one or a new process.
        """
        message = json.dumps({"op": "fork", "id": task_id, "spec": str(spec), "spare": spare}).encode()
        socket.send_fds(self._socket, [message], fds)

    def prepare(self, threads: int, count: int) -> None:
        """Request ``count`` spare processes with ``threads`` threads each, to be created while no task runs."""
        with contextlib.suppress(OSError):
            self._socket.send(json.dumps({"op": "prepare", "threads": threads, "count": count}).encode())

    def kill(self, task_id: str, signal_number: int) -> None:
        """Send a signal to a task's process group. Does nothing if the task has ended."""
        with contextlib.suppress(OSError):  # if the warm process is gone, so are its tasks
            self._socket.send(json.dumps({"op": "kill", "id": task_id, "signal": signal_number}).encode())

    async def close(self) -> None:
        """Disconnect. The warm process then kills the processes that it has forked for this host."""
        if self._pinging is not None:
            self._pinging.cancel()
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        self._socket.close()

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(self._socket, _MAX_MESSAGE):
                self._heard = loop.time()
                try:
                    self._on_message(json.loads(data))
                except Exception:  # the next message may report the end of another task
                    logger.exception("A message from the warm process could not be processed: %.200r", data)
        if self._pinging is not None:
            self._pinging.cancel()
        self._socket.close()
        self._on_lost()
