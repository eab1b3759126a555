"""The warm process: imports TensorFlow and Keras once per machine, without starting their runtime, and forks tasks.

Started as ``python -m jupyter_dtf.backend.task.warm FD CLAIMS DIRECTORY SHARED``. FD is a listening Unix socket
(SOCK_SEQPACKET: one message per packet), bound by the process that starts this one, so that hosts can connect before
TensorFlow has been imported. CLAIMS are descriptors (``5,6``) that claim DIRECTORY and SHARED while they are open.
Hosts send JSON, accompanied by a task's four descriptors:

* ``{"op": "fork", "id", "spec", "spare"}`` + [stdout, stderr, events, control]; ``spec`` is the path of a TaskSpec as
  JSON; if ``spare`` is not 0, a spare that has rehearsed with this number of threads may become the task.
* ``{"op": "prepare", "threads", "count"}``: keep that many rehearsed spares with that many threads, created when no
  task has run for a moment.
* ``{"op": "kill", "id", "signal"}``: signal the task's whole process group.
* ``{"op": "ping"}``: reply with ``pong``.

Hosts receive ``{"op": "ready", "pid", "unguarded"}`` (the reason why ports cannot be guarded here, "" if they can) or
``{"op": "failed", "message", "may_pass"}`` (whether another attempt may succeed) once,
``{"op": "forked", "id", "pid"}`` or ``{"op": "not_forked", "id", "message"}``, ``{"op": "exited", "id", "status"}`` (in
the format of ``waitpid``), ``{"op": "prepared", "count"}`` with each new spare, and ``{"op": "pong"}``.

When a host disconnects, its tasks are killed and its directories removed. When a task ends, all processes that it has
started are killed, even those in other sessions. The warm process exits when its standard input (the lifeline of the
process that started it) is closed and no host is connected. It is then the last process of its cluster on this machine,
so it removes DIRECTORY and SHARED.

It must stay single-threaded and must not start TensorFlow's runtime; otherwise its forks would inherit locks that are
never released.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ... import entry_points
from ...schema.result_files import remove_but_held
from . import autograph_files
from .allocator import keep_freed_memory
from .orphan_cleanup import Orphans, adopt_orphans, die_with_parent, end_orphans
from .ports import guarded_port
from .spares import Spares

MAX_MESSAGE = 65_536
_MAX_WORDS = 8_000
_DESCRIPTORS = 4
_NO_ROOM_S = 0.1


@dataclass
class _Host:
    """One connected host, and the process ids of the tasks forked for it, keyed by task id."""

    socket: socket.socket
    pid: int
    tasks: dict[str, int] = field(default_factory=dict)
    has_forked: bool = False
    """Whether a task was ever forked for it. False for a connection with which a host merely probes this process."""

    def send(self, message: dict[str, object]) -> None:
        try:
            self.socket.send(json.dumps(message).encode(), socket.MSG_DONTWAIT)
        except BlockingIOError:  # the host is stopped, with hundreds of unread messages: others must not wait
            self.socket.shutdown(socket.SHUT_RDWR)  # noticed on the next read
        except OSError:
            pass  # a host that is gone is noticed on the next read too


class Warm:
    """The loop of the warm process."""

    def __init__(self, listener: socket.socket, claims: Sequence[int], directory: Path, shared: Path) -> None:
        self._listener = listener
        self._claims = claims
        self._directory = directory
        self._shared = shared
        self._orphans: list[Orphans] = []
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
        """Import TensorFlow, which takes seconds. A failure is stored and reported to every host."""
        gc.disable()  # nearly all new objects are permanent
        try:
            import keras  # noqa: F401
            import tensorflow  # noqa: F401

            from . import process, trial  # noqa: F401
            from .collectives import shared_memory  # noqa: F401
            from .fit.allreduce import rehearsal, training  # noqa: F401
            from .model import keras_io  # noqa: F401
            from .script_program import COMPAT

            autograph_files.keep_in(self._directory)
            entry_points.points(COMPAT)  # looked up once for all forks
            process.learn_to_read()
        except Exception as error:
            message = f"{type(error).__name__}: {error}"[:_MAX_WORDS]
            may_pass = isinstance(error, (OSError, MemoryError))  # such as a full disk
            self._state = {"op": "failed", "message": message, "may_pass": may_pass}
        else:
            self._state = {"op": "ready", "pid": os.getpid(), "unguarded": guarded_port.why_not()}
        gc.collect()
        gc.freeze()  # never collect existing objects, so that forks share their pages
        # Tracing creates hundreds of thousands of objects that stay. Collecting after every 700, Python's default,
        # would take a tenth of the time to a task's first step.
        gc.set_threshold(50_000, 20, 20)
        gc.enable()

    def serve(self) -> None:
        """Run until the lifeline is closed and no host is left."""
        self._child_read, child_write = os.pipe()
        os.set_blocking(self._child_read, False)
        os.set_blocking(child_write, False)
        signal.set_wakeup_fd(child_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._selector.register(self._child_read, selectors.EVENT_READ, self._reap)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(0, selectors.EVENT_READ, self._on_lifeline)
        while self._lifeline or self._hosts:
            for key, _ in self._selector.select(self._spare_due_in_s()):
                self._do(partial(key.data, key.fileobj))
            if self._spare_due_in_s() == 0:
                self._do(self._spares.begin)

    def _do(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Exception:  # one invalid message, or one failed fork, must not end all tasks
            traceback.print_exc()

    def _on_lifeline(self, _: object) -> None:
        if not os.read(0, 1024):
            self._lifeline = False
            self._selector.unregister(0)

    def _accept(self, _: object) -> None:
        try:
            connection, _address = self._listener.accept()
        except OSError:  # out of file descriptors: the connection stays in the queue
            time.sleep(_NO_ROOM_S)
            raise
        pid, _user, _group = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        host = _Host(connection, pid)
        self._hosts.append(host)
        self._selector.register(connection, selectors.EVENT_READ, lambda _: self._on_message(host))
        host.send(self._state)

    def _on_message(self, host: _Host) -> None:
        try:
            data, fds, flags, _address = socket.recv_fds(host.socket, MAX_MESSAGE, 8)
        except OSError:
            data, fds, flags = b"", [], 0
        if not data:
            self._drop(host)
            return
        try:
            if flags & socket.MSG_TRUNC:
                raise ValueError(f"A message must have at most {MAX_MESSAGE} bytes, got more")
            self._follow(host, json.loads(data), fds)
        finally:
            for fd in fds:
                os.close(fd)

    def _follow(self, host: _Host, message: dict[str, Any], fds: list[int]) -> None:
        match message["op"]:
            case "fork":
                self._start(host, message["id"], message["spec"], message["spare"], fds)
            case "prepare":
                self._spares.want(message["threads"], message["count"])
                self._spares.rest()
            case "kill":
                if pid := host.tasks.get(message["id"]):
                    _kill_group(pid, message["signal"])
            case "ping":
                host.send({"op": "pong"})

    def _drop(self, host: _Host) -> None:
        self._selector.unregister(host.socket)
        host.socket.close()
        self._hosts.remove(host)
        for pid in host.tasks.values():
            _kill_group(pid, signal.SIGKILL)
        if not host.has_forked:
            return
        orphans = Orphans(host.pid, set(host.tasks.values()))
        if not orphans.settle(0, self._directory, self._shared):
            self._orphans.append(orphans)

    def _start(self, host: _Host, task_id: str, spec: str, spare: int, fds: list[int]) -> None:
        try:
            if len(fds) != _DESCRIPTORS:
                raise ValueError(f"A task must be sent {_DESCRIPTORS} file descriptors, got {len(fds)}")
            host.has_forked = True
            pid = self._spares.give(spare, spec, fds) or self._fork(lambda: self._be_task(spec, fds))
        except Exception as error:  # out of processes or memory
            host.send({"op": "not_forked", "id": task_id, "message": f"{type(error).__name__}: {error}"[:_MAX_WORDS]})
            raise
        host.tasks[task_id] = pid
        host.send({"op": "forked", "id": task_id, "pid": pid})

    def _fork(self, child: Callable[[], int]) -> int:
        """Fork a child that has its own process group and dies with this process. Returns the child's pid."""
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = os.EX_SOFTWARE
            try:
                self._be_child()
                if os.getppid() == parent:
                    status = child()
            except BaseException:
                traceback.print_exc()  # only for a spare, into the log; a task saves its traceback in its outcome
            finally:
                os._exit(status)
        with contextlib.suppress(OSError):  # also done by the child; an early kill then finds the group
            os.setpgid(pid, pid)
        return pid

    def _be_child(self) -> None:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        die_with_parent()
        adopt_orphans()  # orphans of this task's children belong to it, not to another task
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        self._listener.close()
        for host in self._hosts:
            host.socket.close()
        self._spares.leave()
        for claim in self._claims:
            os.close(claim)
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

        try:
            with open(spec_path, "rb") as file:
                spec = msgspec.json.decode(file.read(), type=TaskSpec)
        except FileNotFoundError:  # its run was abandoned before it began, and the host no longer waits for it
            return os.EX_TEMPFAIL
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
            # All processes that the task started end with it: kill its group before reaping it, while its pid cannot be
            # reused.
            _kill_group(ended.si_pid, signal.SIGKILL)
            _, status = os.waitpid(ended.si_pid, 0)
            try:
                self._tell_end(ended.si_pid, status)
            finally:
                self._clear_up(ended.si_pid)

    def _tell_end(self, ended: int, status: int) -> None:
        for host in self._hosts:
            for task_id, pid in list(host.tasks.items()):
                if pid == ended:
                    del host.tasks[task_id]
                    host.send({"op": "exited", "id": task_id, "status": status})

    def _clear_up(self, ended: int) -> None:
        self._spares.on_exit(ended)
        self._spares.rest()
        end_orphans({*self._spares.pids, *(pid for host in self._hosts for pid in host.tasks.values())})
        autograph_files.forget(self._directory, ended)
        self._orphans = [each for each in self._orphans if not each.settle(ended, self._directory, self._shared)]

    def _tell_all(self, message: dict[str, object]) -> None:
        for host in self._hosts:
            host.send(message)

    def _spare_due_in_s(self) -> float | None:
        return self._spares.due_in_s(is_idle=not any(host.tasks for host in self._hosts))


def _kill_group(pid: int, signal_number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal_number)


def main(argv: list[str]) -> int:
    """Serve hosts on the listening socket ``argv[0]``, and remove the directories ``argv[2:]`` at the end."""
    # Escape printed characters that cannot be encoded. Set now, while stdout is a file: it cannot be set for a pipe.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    adopt_orphans()
    keep_freed_memory()
    listener = socket.socket(fileno=int(argv[0]))
    claims = [int(claim) for claim in argv[1].split(",")]
    directories = [Path(name) for name in argv[2:]]
    warm = Warm(listener, claims, *directories)
    try:
        warm.import_tensorflow()
        warm.serve()
    finally:
        for directory in directories:
            remove_but_held(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
