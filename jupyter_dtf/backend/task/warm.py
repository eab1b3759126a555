"""The warm process: imports TensorFlow and Keras once per machine, starts nothing of them, and forks tasks.

``python -m jupyter_dtf.backend.task.warm FD DIRECTORY...``: FD is a listening Unix socket (SOCK_SEQPACKET: one message
a packet), bound by whoever starts this process, so that hosts can connect before TensorFlow is there. They send JSON,
with a task's four descriptors beside it:

* ``{"op": "fork", "id", "spec", "spare"}`` + [stdout, stderr, events, control]; ``spec`` is the path of a TaskSpec as
  JSON; ``spare``, where it is not 0, the number of threads of a spare that may become the task.
* ``{"op": "prepare", "threads", "count"}``: how many spares of how many threads to have, while no task runs.
* ``{"op": "kill", "id", "signal"}``: to the task's whole process group.

and are told ``{"op": "ready", "pid"}`` or ``{"op": "failed", "message"}`` once, ``{"op": "forked", "id", "pid"}``,
``{"op": "exited", "id", "status"}`` (as ``waitpid`` gives it), and ``{"op": "prepared", "count"}`` with each new spare.
The tasks of a host that goes away are killed. The process ends when its standard input (the lifeline of whoever started
it) is closed and no host is left, and so is the last of its cluster on this machine: it removes the DIRECTORYs.

It must stay a process of one thread that has started nothing of TensorFlow's runtime, or its forks would inherit locks
that nobody will ever release.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from .spares import Spares

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
MAX_MESSAGE = 65_536


def die_with_parent() -> None:
    """Have the kernel send SIGKILL to this process when its parent ends (Linux)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass
class _Host:
    """One connected host and the tasks that were forked for it, by their ids."""

    socket: socket.socket
    tasks: dict[str, int] = field(default_factory=dict)

    def send(self, message: dict[str, object]) -> None:
        # A host that is gone is noticed when its socket is read.
        with contextlib.suppress(OSError):
            self.socket.send(json.dumps(message).encode())


class Warm:
    """The loop of the warm process."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._hosts: list[_Host] = []
        self._state: dict[str, object] = {}
        self._lifeline = True
        self._selector = selectors.DefaultSelector()
        self._spares = Spares(
            self._selector,
            self._fork,
            self._be_task,
            kill=lambda pid: _kill_group(pid, signal.SIGKILL),
            on_ready=lambda count: self._tell_all({"op": "prepared", "count": count}),
        )

    def import_tensorflow(self) -> None:
        """The dear part. A failure is kept and told to every host."""
        try:
            import keras  # noqa: F401
            import tensorflow  # noqa: F401

            from . import process  # noqa: F401
            from .collectives import shared_memory  # noqa: F401
            from .fit import main, rehearsal  # noqa: F401
        except Exception as error:
            self._state = {"op": "failed", "message": f"{type(error).__name__}: {error}"}
        else:
            self._state = {"op": "ready", "pid": os.getpid()}
        gc.collect()
        gc.freeze()  # what is here now is never collected: forks share its pages
        # Tracing makes hundreds of thousands of objects that stay. Looking through them after every 700, as Python
        # would, costs a tenth of the time to a task's first step.
        gc.set_threshold(50_000, 20, 20)

    def serve(self) -> None:
        """Until the lifeline is closed and no host is left."""
        self._child_read, child_write = os.pipe()
        os.set_blocking(self._child_read, False)
        os.set_blocking(child_write, False)
        signal.set_wakeup_fd(child_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._child_read, selectors.EVENT_READ, self._reap)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(0, selectors.EVENT_READ, self._on_lifeline)
        while self._lifeline or self._hosts:
            for key, _ in self._selector.select():
                key.data(key.fileobj)

    def _on_lifeline(self, _: object) -> None:
        if not os.read(0, 1024):
            self._lifeline = False
            self._selector.unregister(0)

    def _accept(self, _: object) -> None:
        connection, _address = self._listener.accept()
        host = _Host(connection)
        self._hosts.append(host)
        self._selector.register(connection, selectors.EVENT_READ, lambda _: self._on_message(host))
        host.send(self._state)

    def _on_message(self, host: _Host) -> None:
        try:
            data, fds, _flags, _address = socket.recv_fds(host.socket, MAX_MESSAGE, 8)
        except ConnectionError:
            data, fds = b"", []
        if not data:
            self._drop(host)
            return
        message = json.loads(data)
        if message["op"] == "fork":
            self._start(host, message["id"], message["spec"], message["spare"], fds)
        elif message["op"] == "prepare":
            self._spares.want(message["threads"], message["count"])
            self._replenish()
        elif message["op"] == "kill" and (pid := host.tasks.get(message["id"])):
            _kill_group(pid, message["signal"])

    def _drop(self, host: _Host) -> None:
        self._selector.unregister(host.socket)
        host.socket.close()
        self._hosts.remove(host)
        for pid in host.tasks.values():
            _kill_group(pid, signal.SIGKILL)

    def _start(self, host: _Host, task_id: str, spec: str, spare: int, fds: list[int]) -> None:
        pid = self._spares.give(spare, spec, fds) or self._fork(lambda: self._be_task(spec, fds))
        for fd in fds:
            os.close(fd)
        host.tasks[task_id] = pid
        host.send({"op": "forked", "id": task_id, "pid": pid})

    def _fork(self, child: Callable[[], int]) -> int:
        """A child in a process group of its own, which ends with this process. Returns its pid."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = os.EX_SOFTWARE
            try:
                self._be_child()
                if os.getppid() == parent:
                    status = child()
            except BaseException:
                traceback.print_exc()  # of a spare, into the log; a task leaves its own as its outcome
            finally:
                os._exit(status)
        with contextlib.suppress(OSError):  # done by both, so that a kill right after the fork finds the group
            os.setpgid(pid, pid)
        return pid

    def _be_child(self) -> None:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        die_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        self._listener.close()
        for host in self._hosts:
            host.socket.close()
        self._spares.leave()
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)

    def _be_task(self, spec_path: str, fds: list[int]) -> int:
        stdout, stderr, events, control = fds
        for source, target in ((stdout, 1), (stderr, 2)):
            os.dup2(source, target)
            os.close(source)

        import msgspec

        from ...schema.launch import TaskSpec
        from . import process

        with open(spec_path, "rb") as file:
            spec = msgspec.json.decode(file.read(), type=TaskSpec)
        return process.run(spec, events, control)

    def _reap(self, _: object) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._child_read, 1024):
                pass
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            # What the task itself started ends with it: its group is killed while its pid cannot yet be another's.
            _kill_group(ended.si_pid, signal.SIGKILL)
            _, status = os.waitpid(ended.si_pid, 0)
            self._spares.on_exit(ended.si_pid)
            for host in self._hosts:
                for task_id, pid in list(host.tasks.items()):
                    if pid == ended.si_pid:
                        del host.tasks[task_id]
                        host.send({"op": "exited", "id": task_id, "status": status})
            self._replenish()

    def _tell_all(self, message: dict[str, object]) -> None:
        for host in self._hosts:
            host.send(message)

    def _replenish(self) -> None:
        if not any(host.tasks for host in self._hosts):
            self._spares.replenish()


def _kill_group(pid: int, signal_number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal_number)


def main(argv: list[str]) -> int:
    """Serve hosts at the listening socket ``argv[0]``; remove the directories ``argv[1:]`` at the end."""
    # What a task's own children leave behind comes to this process, which collects it.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    listener = socket.socket(fileno=int(argv[0]))
    warm = Warm(listener)
    try:
        warm.import_tensorflow()
        warm.serve()
    finally:
        for directory in argv[1:]:
            shutil.rmtree(directory, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
