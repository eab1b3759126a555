"""This task's port, and the connections between the tasks of a run.

A peer must prove that it belongs to the run before any other data is read from it: with the run's certificate (TLS) or,
if encryption is disabled, with an HMAC over fresh nonces. Each incoming connection has its own thread and a few seconds
to do so; a silent connection thus cannot block others. For data, the dialling side then sends the key of the frames
over TLS.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from .....errors import Unavailable
from .....schema.cluster import split_endpoint
from .encrypted_frames import KEY_BYTES, new_key
from .run_certificate import NONCE_BYTES, PROOF_BYTES, Tls, encrypts, is_proof, nonce, proof
from .wires import Incoming, Outgoing, Peer, link_seconds, prepare

HANDSHAKE_S = 10.0
"""The time in seconds within which an incoming connection must authenticate itself."""
KNOCKING = 200
"""The maximum number of connections that may be authenticating at a time. If another arrives, the oldest is closed."""
_BACKLOG = 128

_HELLO = struct.Struct("<4sI?H")  # magic, rank, whether the key of frames follows, length of the group's name
_MAGIC = b"dtf2"
_MOST_OF_A_NAME = 200
_WELCOME = b"W"


class Stranger(OSError):
    """The peer does not belong to the run."""


class NotOurs(OSError):
    """The server at a task's address is not that task."""


class Links:
    """The connections of the task ``rank``.

    ``addresses`` holds the ``host:port`` of each task of the run, in rank order. ``refused(host)`` is called in another
    thread, once for each host from which a connection was rejected. The constructor raises Unavailable if the task
    cannot listen at its address.
    """

    def __init__(
        self,
        rank: int,
        tasks: Sequence[str],
        addresses: Sequence[str],
        secret: bytes,
        refused: Callable[[str], None] = lambda host: None,
    ) -> None:
        self.rank = rank
        self.patience_s = link_seconds()
        self._places = [split_endpoint(address) for address in addresses]
        self._tasks = list(tasks)
        self._secret = secret
        self._tls = Tls(secret) if encrypts() else None
        self._refused = refused
        self._told: set[str] = set()
        self._changed = threading.Condition()
        self._arrived: dict[tuple[str, int], Incoming] = {}
        self._services: dict[str, Callable[[Incoming, socket.socket], None]] = {}
        self._knocking: dict[int, socket.socket] = {}  # keyed by number, the oldest first
        self._knocks = 0
        self._closed = False
        self._listener = _listen(*self._places[rank])
        threading.Thread(target=self._accept, name="dtf-links", daemon=True).start()

    @property
    def listens_at(self) -> Any:
        """The address at which this task listens."""
        return self._listener.getsockname()

    def close(self) -> None:
        """Stop listening. Connections that have already been returned stay open."""
        self._closed = True
        _hang_up(self._listener)
        with self._changed:
            for incoming in self._arrived.values():
                incoming.close()
            self._arrived.clear()

    def peer(self, rank: int) -> Peer:
        """Return the peer with that rank."""
        return Peer(rank, self._tasks[rank], self._places[rank][0])

    def dial(self, group: str, rank: int) -> Outgoing:
        """Connect to the task with that rank.

        Raises OSError, in particular ConnectionRefusedError while the task is not listening.
        """
        key = new_key() if self._tls is not None else None
        connected = self._connected(group, rank, key)
        try:
            return Outgoing(connected, self.peer(rank), self.patience_s, key)
        except BaseException:
            connected.close()
            raise

    def dial_raw(self, group: str, rank: int) -> socket.socket:
        """Connect as ``dial`` does, but return the socket, which can be read and written."""
        return self._connected(group, rank, None)

    def _connected(self, group: str, rank: int, key: bytes | None) -> socket.socket:
        connected = socket.create_connection(self._places[rank], timeout=HANDSHAKE_S)
        try:
            prepare(connected, self.patience_s)
            name = group.encode()
            hello = _HELLO.pack(_MAGIC, self.rank, key is not None, len(name)) + name
            if self._tls is not None:
                connected = self._tls.dialled(connected)
                connected.sendall(hello)
            else:
                mine = nonce()
                connected.sendall(mine)
                nonces = mine + exactly(connected, NONCE_BYTES)
                connected.sendall(hello + proof(self._secret, b"dials", nonces, hello))
                if not is_proof(exactly(connected, PROOF_BYTES), self._secret, b"answers", nonces, hello):
                    raise NotOurs("the program that listens there does not know the run's secret")
            if exactly(connected, 1) != _WELCOME:
                raise NotOurs("the program that listens there does not respond like a task")
            if key is not None:
                connected.sendall(key)
            connected.settimeout(None)
        except BaseException:
            connected.close()
            raise
        return connected

    def await_change(self, seconds: float) -> None:
        """Wait until a connection arrives, for at most ``seconds``."""
        with self._changed:
            self._changed.wait(seconds)

    def arrived(self, group: str, rank: int) -> Incoming | None:
        """Return the connection from the task with that rank for the group, or None. The caller must close it."""
        with self._changed:
            return self._arrived.pop((group, rank), None)

    def serve(self, group: str, service: Callable[[Incoming, socket.socket], None]) -> None:
        """Call ``service`` with every connection for the group, each in a separate thread."""
        self._services[group] = service

    # -- incoming connections -----------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                connected, address = self._listener.accept()
            except OSError:
                if self._closed:
                    return
                time.sleep(0.1)  # out of descriptors: other threads may close some
                continue
            with self._changed:
                if len(self._knocking) >= KNOCKING:
                    _hang_up(self._knocking.pop(next(iter(self._knocking))))
                self._knocks += 1
                self._knocking[self._knocks] = connected.dup()
                arguments = (connected, address[0], self._knocks)
            threading.Thread(target=self._receive, args=arguments, name="dtf-knock", daemon=True).start()

    def _receive(self, connected: socket.socket, host: str, number: int) -> None:
        late = threading.Timer(HANDSHAKE_S, self._end_knock, [number, True])  # applies even if bytes keep arriving
        late.daemon = True
        late.start()
        try:
            proved, rank, group, key = self._proved(connected)
        except (OSError, ValueError):
            connected.close()
            self._turned_away(host)
            return
        finally:
            late.cancel()
            self._end_knock(number)
        try:
            incoming = Incoming(proved, self.peer(rank), self.patience_s, key)
        except OSError:  # out of descriptors
            proved.close()
            return
        if (service := self._services.get(group)) is not None:
            service(incoming, proved)
            return
        with self._changed:
            before = self._arrived.pop((group, rank), None)
            self._arrived[group, rank] = incoming
            self._changed.notify_all()
        if before is not None:
            before.close()

    def _proved(self, connected: socket.socket) -> tuple[socket.socket, int, str, bytes | None]:
        """Authenticate a connection. Returns the authenticated connection, the peer's rank, the group, and the key of
        frames, if the peer sends any.

        Raises OSError if the peer does not belong to the run.
        """
        connected.settimeout(HANDSHAKE_S)
        prepare(connected, self.patience_s)
        try:
            nonces = b""
            if self._tls is not None:
                connected = self._tls.accepted(connected)
            else:
                mine = nonce()
                nonces = exactly(connected, NONCE_BYTES) + mine
                connected.sendall(mine)
            head = exactly(connected, _HELLO.size)
            magic, rank, has_key, length = _HELLO.unpack(head)
            if magic != _MAGIC or length > _MOST_OF_A_NAME or rank >= len(self._tasks):
                raise Stranger("it is not a task")
            name = exactly(connected, length)
            if self._tls is None:
                given = exactly(connected, PROOF_BYTES)
                if not is_proof(given, self._secret, b"dials", nonces, head + name):
                    raise Stranger("it does not know the run's secret")
                connected.sendall(proof(self._secret, b"answers", nonces, head + name))
            connected.sendall(_WELCOME)
            key = exactly(connected, KEY_BYTES) if has_key and self._tls is not None else None
            connected.settimeout(None)
        except BaseException:
            connected.close()
            raise
        return connected, rank, name.decode(errors="replace"), key

    def _end_knock(self, number: int, hang_up: bool = False) -> None:
        with self._changed:
            knocking = self._knocking.pop(number, None)
        if knocking is not None:
            (_hang_up if hang_up else socket.socket.close)(knocking)

    def _turned_away(self, host: str) -> None:
        if host not in self._told:
            self._told.add(host)
            self._refused(host)


def _listen(host: str, port: int) -> socket.socket:
    """Listen at the address that the cluster uses for this machine, or on all interfaces if the machine itself does not
    have that address because a router translates it.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        try:
            listener.bind(address)
        except OSError:
            listener.bind(("", port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise Unavailable(f"The other machines cannot reach this task: {host}:{port} is not free ({error})") from None
    return listener


def exactly(connected: socket.socket, nbytes: int) -> bytes:
    """Read exactly ``nbytes`` bytes. Raises OSError if the connection ends earlier."""
    data = b""
    while len(data) < nbytes:
        more = connected.recv(nbytes - len(data))
        if not more:
            raise ConnectionAbortedError("The connection was closed")
        data += more
    return data


def _hang_up(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
    connected.close()


_links: Links | None = None
_lock = threading.Lock()


def forget_links() -> None:
    """Stop listening, because this process joins another attempt of its run, with other addresses and a new secret."""
    global _links
    with _lock:
        if _links is not None:
            _links.close()
        _links = None


def links_of(ctx: Any) -> Links:
    """Return this task's links. They are created on first use."""
    global _links
    with _lock:
        if _links is None:

            def refused(host: str) -> None:
                ctx.note(
                    "warning",
                    f"A connection from {host} to {ctx.task} was rejected",
                    "It could not prove that it belongs to this run. Another program has connected to the port, or is "
                    "scanning for open ports.",
                )

            _links = Links(ctx.rank, ctx.tasks, ctx.links, bytes.fromhex(ctx.secret), refused)
        return _links
