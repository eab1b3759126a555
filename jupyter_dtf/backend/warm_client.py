"""Starting the warm process of this machine, and a host's connection to it."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SOCKET = "warm.sock"
LOG = "warm.log"
_MAX_MESSAGE = 65_536
_END_MS = 5_000


def start_warm(directory: Path, shared: Path) -> subprocess.Popen[bytes] | None:
    """Start the warm process that serves ``directory``, unless there is one.

    It lives as long as its standard input (the returned process's ``stdin``, its lifeline) is open or a host is
    connected, and then removes ``directory`` and ``shared`` (the tasks' directory in memory): whatever has ended the
    others, nothing stays. Returns None where one was running already.
    """
    path = directory / SOCKET
    with open(directory / "warm.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _answers(path):
            return None
        path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener, open(directory / LOG, "ab") as log:
            listener.bind(str(path))
            path.chmod(0o600)
            listener.listen(64)
            return subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "jupyter_dtf.backend.task.warm",
                    str(listener.fileno()),
                    str(directory),
                    str(shared),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=[listener.fileno()],
                start_new_session=True,
                env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1")},
            )


def wait_for_end(pid: int) -> None:
    """Wait until a dying warm process is gone (0: there was none), a few seconds at most.

    The kernel closes a dying process's descriptors one by one: the hosts' connections may be gone while its listening
    socket would still take a new one.
    """
    if pid == 0:
        return
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        poll.poll(_END_MS)
    finally:
        os.close(pidfd)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        return probe.connect_ex(str(path)) == 0


class WarmClient:
    """A host's connection. ``on_message`` gets what the warm process says, ``on_lost`` is called when it is gone."""

    def __init__(
        self, connection: socket.socket, on_message: Callable[[dict[str, Any]], None], on_lost: Callable[[], None]
    ) -> None:
        self._socket = connection
        self._on_message = on_message
        self._on_lost = on_lost
        self._reader = asyncio.get_running_loop().create_task(self._read())

    @classmethod
    async def connect(
        cls, directory: Path, on_message: Callable[[dict[str, Any]], None], on_lost: Callable[[], None]
    ) -> WarmClient:
        """Connect to the warm process of ``directory``. Raises OSError if there is none."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, str(directory / SOCKET))
        except BaseException:
            connection.close()
            raise
        return cls(connection, on_message, on_lost)

    def fork(self, task_id: str, spec: Path, fds: list[int], spare: int = 0) -> None:
        """Ask for a task; ``fds``: its stdout, stderr, events and control. The caller keeps (and closes) them.

        ``spare``: the number of threads of a spare that may become the task, 0 if it has to be a new process.
        """
        message = json.dumps({"op": "fork", "id": task_id, "spec": str(spec), "spare": spare}).encode()
        socket.send_fds(self._socket, [message], fds)

    def prepare(self, threads: int, count: int) -> None:
        """Have so many spares of so many threads made, while no task runs."""
        with contextlib.suppress(OSError):
            self._socket.send(json.dumps({"op": "prepare", "threads": threads, "count": count}).encode())

    def kill(self, task_id: str, signal_number: int) -> None:
        """Send a signal to a task's process group; nothing happens if it has ended."""
        with contextlib.suppress(OSError):  # a warm process that is gone has taken its tasks with it
            self._socket.send(json.dumps({"op": "kill", "id": task_id, "signal": signal_number}).encode())

    async def close(self) -> None:
        """Leave. The warm process ends what it had forked for this host."""
        self._reader.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reader
        self._socket.close()

    async def _read(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while data := await loop.sock_recv(self._socket, _MAX_MESSAGE):
                self._on_message(json.loads(data))
        except ConnectionError:
            pass
        self._on_lost()
