"""Guarded ports, which restrict who can connect to the TensorFlow server that listens there.

TensorFlow servers listen on all interfaces without authentication. Guarding them needs neither privileges nor support
from TensorFlow: sockets that listen on the same port with SO_REUSEPORT share incoming connections, and a classic BPF
program attached to the first socket decides, before a connection is established, which socket gets it. The guard's own
socket is the first, and gets all connections except

* connections from the *source port*, which the guard keeps bound, so that the kernel does not give it to another user;
* connections from the given machines, whose users cannot be distinguished.

Behind the guard's socket is the gate (``gate.py``), which checks who has connected and forwards connections of the same
user. If the gate is killed, the port does not become open to others: connections are simply not accepted.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from . import gate

_SO_ATTACH_REUSEPORT_CBPF = 51
_BACKLOG = 128
_LOAD_WORD, _LOAD_HALF, _LOAD_BYTE = 0x20, 0x28, 0x30
_EQUAL, _JUMP, _RETURN = 0x15, 0x05, 0x06
_NETWORK = 0xFFF00000  # SKF_NET_OFF: offsets from here are relative to the IP header
_TO_GUARD, _TO_SERVER = 0, 1  # indices of sockets, in the order in which they started listening

_DIGITS = {socket.AF_INET: 8, socket.AF_INET6: 32}  # the length of addresses in /proc/net/tcp and tcp6
_PROBE_S = 2.0


class Guard:
    """Guards a ``port`` (0: a free one). ``machines`` are addresses from which any user may reach the server.

    Raises OSError if the system does not support guards. Until ``close``, connections to the port are queued but not
    accepted, so a guard without a gate seals the port. The sockets are kept as bare descriptors, which are not closed
    at interpreter exit, because TensorFlow is still listening then.
    """

    def __init__(self, port: int = 0, machines: Sequence[str] = ()) -> None:
        self.family = _family()
        self._machines = machines
        with _reusable(socket.AF_INET) as source, _reusable(self.family) as listener:
            source.bind(("", 0))
            self.source_port: int = source.getsockname()[1]
            listener.bind(("", port))
            self.port: int = listener.getsockname()[1]
            listener.listen(_BACKLOG)
            _steer(listener, _program(self.source_port, machines))
            self.source, self.listener = source.detach(), listener.detach()

    def aim(self) -> bool:
        """Direct admitted connections to the newest server on this port. Returns whether that server is behind the
        guard.
        """
        there = [row[1].partition(":")[0] for row in gate.tables() if gate.listens(row, self.port)]
        behind = [address for address in there if len(address) == _DIGITS[self.family]]
        if len(behind) > _TO_SERVER + 1:
            with socket.socket(fileno=os.dup(self.listener)) as listener:
                _steer(listener, _program(self.source_port, self._machines, len(behind) - 1))
        return 1 < len(behind) == len(there)

    def close(self) -> None:
        """Close the guard. No server may be listening on the port, because it would then be open to everyone."""
        os.close(self.listener)
        os.close(self.source)


def _reusable(family: int) -> socket.socket:
    made = socket.socket(family)
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return made


def _family() -> socket.AddressFamily:
    """Return the address family in which gRPC listens: IPv6, which includes IPv4, if there is an IPv6 loopback address.

    Only sockets of the same family share a port.
    """
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return socket.AF_INET6
    return socket.AF_INET


def _program(source_port: int, machines: Sequence[str], server: int = _TO_SERVER) -> list[tuple[int, int, int, int]]:
    """Return the classic BPF program that selects a socket: (operation, jump if true, jump if false, value)."""
    to_server = (_RETURN, 0, 0, server)
    loopback = [
        (_LOAD_BYTE, 0, 0, _NETWORK + 12),
        (_EQUAL, 0, 3, 127),
        (_LOAD_HALF, 0, 0, _NETWORK + 20),
        (_EQUAL, 0, 1, source_port),
        to_server,
        (_RETURN, 0, 0, _TO_GUARD),
    ]
    v4 = [(_LOAD_WORD, 0, 0, _NETWORK + 12)]
    v6 = []
    for machine in machines:
        if ":" in machine:
            words = struct.unpack(">4I", socket.inet_pton(socket.AF_INET6, machine))
            for i, word in enumerate(words):
                v6 += [(_LOAD_WORD, 0, 0, _NETWORK + 8 + 4 * i), (_EQUAL, 0, 2 * (3 - i) + 1, word)]
            v6.append(to_server)
        else:
            (word,) = struct.unpack(">I", socket.inet_pton(socket.AF_INET, machine))
            v4 += [(_EQUAL, 0, 1, word), to_server]
    v4 += loopback
    v6.append((_RETURN, 0, 0, _TO_GUARD))
    # An IPv4 header of five words starts with the byte 0x45. Packets with IP options go to the gate.
    is_v4 = [(_LOAD_BYTE, 0, 0, _NETWORK), (_EQUAL, 1, 0, 0x45), (_JUMP, 0, 0, len(v4))]
    return [*is_v4, *v4, *v6]


def _steer(listener: socket.socket, program: Sequence[tuple[int, int, int, int]]) -> None:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *each) for each in program))
    listener.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_REUSEPORT_CBPF, struct.pack("HP", len(program), ctypes.addressof(code))
    )


@cache
def why_not() -> str:
    """Return why this system cannot guard a port, or "" if a test shows that it can."""
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} offers no known way to guard a port"
    try:
        guard = Guard()
    except OSError as error:
        return f"the kernel cannot direct connections ({error.strerror})"
    with contextlib.closing(guard), contextlib.ExitStack() as opened:
        try:
            server = opened.enter_context(_reusable(guard.family))
            server.bind(("", guard.port))
            server.listen()
            before = opened.enter_context(socket.socket(fileno=os.dup(guard.listener)))
            for source, expected in ((("", 0), before), (("127.1.1.1", guard.source_port), server)):
                client = opened.enter_context(_reusable(socket.AF_INET))
                client.bind(source)
                client.settimeout(_PROBE_S)
                client.connect(("127.0.0.1", guard.port))
                expected.settimeout(_PROBE_S)
                came, peer = expected.accept()
                opened.enter_context(came)
                if gate.owner(peer[:2], came.getsockname()[:2], gate.tables()) != os.getuid():
                    return "/proc/net/tcp does not report the owner of a connection"
        except OSError as error:
            return f"the kernel does not direct connections as expected ({error})"
    return ""


class Gate:
    """This process's gate, which lets processes of the same user through to the servers behind guards.

    ``on_refused(who)`` is called in another thread, once for each user or address that was rejected.
    """

    def __init__(self, on_refused: Callable[[str], None]) -> None:
        self._on_refused = on_refused
        self._lock = threading.Lock()
        self._ports: set[int] = set()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def open(self, guard: Guard) -> None:
        """Let this user's processes through to the guard's port once a server listens there."""
        with self._lock:
            if self._control is None or (self._process is not None and self._process.poll() is not None):
                self._control = self._start()
            self._ports.add(guard.port)
            message = json.dumps({"op": "add", "port": guard.port}).encode()
            socket.send_fds(self._control, [message], [guard.listener, guard.source])

    def shut(self, port: int) -> None:
        """Stop letting connections through to ``port``. The gate exits when no port is left."""
        with self._lock:
            self._ports.discard(port)
            if self._control is None or self._process is None:
                return
            if self._ports:
                self._control.send(json.dumps({"op": "forget", "port": port}).encode())
                return
            self._control.shutdown(socket.SHUT_RDWR)
            self._control = None
            self._process.wait()

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            program = [sys.executable, "-I", "-S", str(Path(gate.__file__))]
            self._process = subprocess.Popen(program, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
        threading.Thread(target=self._listen, args=(ours,), name="dtf-gate", daemon=True).start()
        return ours

    def _listen(self, control: socket.socket) -> None:
        with control, contextlib.suppress(OSError):
            while data := control.recv(4096):
                self._on_refused(json.loads(data)["refused"])


@contextlib.contextmanager
def reusing_ports() -> Iterator[None]:
    """Let TensorFlow servers that start within the block share their ports with existing guards."""
    before = os.environ.get("TF_GRPC_REUSE_PORT")
    os.environ["TF_GRPC_REUSE_PORT"] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ["TF_GRPC_REUSE_PORT"]
        else:
            os.environ["TF_GRPC_REUSE_PORT"] = before
