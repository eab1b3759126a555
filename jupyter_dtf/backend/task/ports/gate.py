"""The gate in front of a process's TensorFlow servers, which only lets processes of the same user through.

Run by its path, ``python -I -S gate.py``. It imports only Python's own modules, so that it starts within milliseconds.
Its standard input is a Unix socket (SOCK_SEQPACKET) on which ``guarded_port.py`` sends JSON:

* ``{"op": "add", "port"}`` + [listener, source]: a listening socket that gets the connections intended for the server
  at ``port``, and a socket that holds the port from which connections can reach the server itself;
* ``{"op": "forget", "port"}``: close the gate for this port.

It sends ``{"refused": who}``, once for each user or address that was rejected. It exits when the socket is closed.

The kernel lists the user of every local socket in ``/proc/net/tcp``. A connection from another user, or from another
machine, is closed before a byte of it is read or written.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
from dataclasses import dataclass, field

_CHUNK = 1 << 20
_MOST_TOLD = 16  # the maximum number of rejections to report
_NOT_YET_S = 0.005  # polling interval: nothing reports when a server starts listening
_SPLICE = 1 | 2  # SPLICE_F_MOVE, SPLICE_F_NONBLOCK
_LISTEN = "0A"


def tables() -> list[list[str]]:
    """Return the rows of all TCP sockets in this network namespace, split into fields."""
    rows = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/net/{name}", encoding="ascii") as table:
            rows += [line.split() for line in table.readlines()[1:]]
    return rows


def listens(row: list[str], port: int) -> bool:
    """Return whether this row is a socket that listens on the port."""
    return row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port


def owner(peer: tuple[str, int], here: tuple[str, int], rows: list[list[str]]) -> int | None:
    """Return the user id of the local socket at ``peer`` that is connected to ``here``; None if there is none."""
    wanted = {(_in_table(*peer, family), _in_table(*here, family)) for family in (socket.AF_INET, socket.AF_INET6)}
    for row in rows:
        if (row[1], row[2]) in wanted and row[9] != "0":  # the inode: 0 if no process has the socket any more
            return int(row[7])
    return None


def _in_table(host: str, port: int, family: int) -> str:
    """Format an address as in ``/proc/net/tcp`` and ``tcp6``, as 32-bit words in hex; "" if that is not possible."""
    host = host.partition("%")[0].removeprefix("::ffff:")
    if family == socket.AF_INET6 and ":" not in host:
        host = f"::ffff:{host}"
    try:
        packed = socket.inet_pton(family, host)
    except OSError:
        return ""
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed)) + f":{port:04X}"


@dataclass
class _Door:
    """A guarded port. ``listener`` accepts the connections intended for the server; ``source`` holds the local port
    from which they are forwarded to it.
    """

    port: int
    listener: socket.socket
    source: socket.socket
    waiting: list[socket.socket] = field(default_factory=list)
    """Connections to forward once the server is listening."""


def _serves(door: _Door, rows: list[list[str]]) -> bool:
    """Return whether a server listens in addition to the gate's own socket."""
    return sum(listens(row, door.port) for row in rows) > 1


class _End:
    """One end of a forwarded connection, and the pipe with the data to be sent to it."""

    def __init__(self, side: socket.socket) -> None:
        side.setblocking(False)
        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = side
        self.fd = side.fileno()
        self.other: _End = self
        self.pipe_out, self.pipe_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # the user's pipe memory may be used up; the default size will do
            fcntl.fcntl(self.pipe_in, fcntl.F_SETPIPE_SZ, _CHUNK)
        self.waiting = 0
        self.is_over = False
        """Whether this end will send no more data."""
        self.watched = select.EPOLLIN

    def close(self) -> None:
        self.socket.close()
        os.close(self.pipe_in)
        os.close(self.pipe_out)


class Gate:
    """The loop of the gate; ``control`` is its standard input."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._uid = os.getuid()
        self._doors: dict[int, _Door] = {}
        self._ends: dict[int, _End] = {}
        self._carried = 0
        self._refused: set[str] = set()
        self._epoll = select.epoll()
        self._epoll.register(control, select.EPOLLIN)

    def serve(self) -> None:
        """Run until the other side of the control socket is closed."""
        ends = self._ends
        while True:
            is_asked = any(door.waiting for door in self._doors.values())
            for fd, events in self._epoll.poll(_NOT_YET_S if is_asked else None):
                if (end := ends.get(fd)) is not None:
                    self._on_end(end, events)
                elif (door := self._doors.get(fd)) is not None:
                    self._knock(door)
                elif fd == self._control.fileno() and not self._command():
                    return
            if is_asked:
                self._let_in()

    def _command(self) -> bool:
        data, fds, _flags, _address = socket.recv_fds(self._control, 4096, 2)
        if not data:
            return False
        message = json.loads(data)
        if message["op"] == "add":
            listener, source = (socket.socket(fileno=fd) for fd in fds)
            listener.setblocking(False)
            self._doors[listener.fileno()] = _Door(message["port"], listener, source)
            self._epoll.register(listener, select.EPOLLIN)
        else:
            for door in [door for door in self._doors.values() if door.port == message["port"]]:
                self._epoll.unregister(door.listener)
                del self._doors[door.listener.fileno()]
                for each in (door.listener, door.source, *door.waiting):
                    each.close()
        return True

    # -- new connections ----------------------------------------------------------------------------------------

    def _knock(self, door: _Door) -> None:
        try:
            came, peer = door.listener.accept()
        except OSError:  # the connection is already gone
            return
        rows = tables()
        uid = owner(peer[:2], came.getsockname()[:2], rows)
        if uid != self._uid:
            came.close()
            self._tell(f"uid {uid}" if uid is not None else peer[0].removeprefix("::ffff:"))
        elif peer[1] == door.source.getsockname()[1]:  # our own forwarded connection: the server has stopped listening
            came.close()
        elif not _serves(door, rows):
            door.waiting.append(came)
        else:
            self._carry_on(came, door)

    def _let_in(self) -> None:
        rows = tables()
        for door in self._doors.values():
            if door.waiting and _serves(door, rows):
                came, door.waiting = door.waiting, []
                for each in came:
                    self._carry_on(each, door)

    def _carry_on(self, came: socket.socket, door: _Door) -> None:
        """Connect to the server from the admitted source port, with a different source address each time."""
        self._carried += 1
        n = self._carried
        on = socket.socket()
        on.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        try:
            address = f"127.{1 + n // 62_500 % 250}.{n // 250 % 250}.{1 + n % 250}"
            on.bind((address, door.source.getsockname()[1]))
            on.connect(("127.0.0.1", door.port))
            ends = _End(came), _End(on)
        except OSError:
            came.close()
            on.close()
            return
        ends[0].other, ends[1].other = ends[1], ends[0]
        for end in ends:
            self._ends[end.fd] = end
            self._epoll.register(end.fd, end.watched)

    def _tell(self, who: str) -> None:
        if who not in self._refused and len(self._refused) < _MOST_TOLD:
            self._refused.add(who)
            with contextlib.suppress(OSError):
                self._control.send(json.dumps({"refused": who}).encode())

    # -- forwarding ---------------------------------------------------------------------------------------------

    def _on_end(self, end: _End, events: int) -> None:
        try:
            if end.waiting and events & select.EPOLLOUT:
                self._pour(end)
            if not end.other.waiting and not end.is_over and events & ~select.EPOLLOUT:
                self._take(end)
            elif events & (select.EPOLLHUP | select.EPOLLERR):
                raise ConnectionResetError
        except BlockingIOError:
            pass
        except OSError:
            self._drop(end)

    def _take(self, end: _End) -> None:
        """Forward as much as possible of the data that has arrived at one end to the other end."""
        other = end.other
        other.waiting = os.splice(end.fd, other.pipe_in, _CHUNK, flags=_SPLICE)
        if not other.waiting:
            end.is_over = True
            if other.is_over:
                self._drop(end)
                return
            other.socket.shutdown(socket.SHUT_WR)
            self._watch(end)
            return
        with contextlib.suppress(BlockingIOError):
            other.waiting -= os.splice(other.pipe_out, other.fd, other.waiting, flags=_SPLICE)
        if other.waiting:
            self._watch(end)
            self._watch(other)

    def _pour(self, end: _End) -> None:
        end.waiting -= os.splice(end.pipe_out, end.fd, end.waiting, flags=_SPLICE)
        if not end.waiting:
            self._watch(end)
            self._watch(end.other)

    def _watch(self, end: _End) -> None:
        watched = select.EPOLLOUT if end.waiting else 0
        if not end.other.waiting and not end.is_over:
            watched |= select.EPOLLIN
        if watched != end.watched:
            end.watched = watched
            self._epoll.modify(end.fd, watched)

    def _drop(self, end: _End) -> None:
        for each in (end, end.other):
            if self._ends.pop(each.fd, None) is not None:
                self._epoll.unregister(each.fd)
                each.close()


def main() -> None:
    """Serve until standard input ends. Ignores signals sent to the process group of the guarded process."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    Gate(socket.socket(fileno=os.dup(0))).serve()


if __name__ == "__main__":
    main()
