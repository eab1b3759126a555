"""Tests whether hosts can reach each other, with connections like those that tasks would make.

A probe listens on its own port for the duration of a check. It drops every connection that does not start with the
check's secret, which the hosts receive over the cluster's own connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import os
import socket
import struct
import threading
import time
from collections.abc import Mapping

from ...schema.cluster import split_endpoint
from ..machine.facts import way_to

DIAL_S = 3.0
"""The timeout for a reply from another host, in seconds."""
_SECRET_BYTES = 32
_PATIENCE_S = 10.0
_LIFE_S = 120.0
"""The time in seconds after which a probe that has not been closed closes itself."""
_HERE, _ECHO, _TAKE = b"H", b"E", b"T"
_COUNT = struct.Struct("<Q")
_BLOCK_BYTES = 1 << 20
_ECHOES = 20
_FIRST_BYTES, _MOST_BYTES = 1 << 20, 1 << 30
_MEASURE_S = 0.4


class Probe:
    """Listens at ``address``, this machine's address as other hosts know it, until closed. Raises OSError if that
    fails.
    """

    def __init__(self, address: str, secret: str) -> None:
        host = address.strip("[]")
        self._secret = bytes.fromhex(secret)
        self._listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        try:
            try:
                self._listener.bind((host, 0))
            except OSError:  # ``address`` is not the machine's own: a router translates it (NAT)
                self._listener.bind(("", 0))
            self._listener.listen(128)
        except OSError:
            self._listener.close()
            raise
        self.endpoint = f"{address}:{self._listener.getsockname()[1]}"
        self._end = asyncio.get_running_loop().call_later(_LIFE_S, self.close)
        threading.Thread(target=self._accept, name="dtf-probe", daemon=True).start()

    def close(self) -> None:
        self._end.cancel()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # it has been closed
            while True:
                connected, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[connected], name="dtf-probed", daemon=True).start()

    def _serve(self, connected: socket.socket) -> None:
        with connected, contextlib.suppress(OSError):
            connected.settimeout(_PATIENCE_S)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if not hmac.compare_digest(_exactly(connected, _SECRET_BYTES), self._secret):
                return
            connected.sendall(_HERE)
            block = bytearray(_BLOCK_BYTES)
            while word := connected.recv(1):
                if word == _TAKE:
                    (left,) = _COUNT.unpack(_exactly(connected, _COUNT.size))
                    while left:
                        got = connected.recv_into(block, min(left, _BLOCK_BYTES))
                        if not got:
                            return
                        left -= got
                connected.sendall(word)


async def dial_all(places: Mapping[str, str], secret: str) -> dict[str, str]:
    """Connect to other hosts' probes. Returns the reasons why some cannot be reached.

    ``places`` holds the endpoints of the probes, keyed by host. The reasons are keyed by host, too.
    """
    tried = await asyncio.gather(*(_dial(place, secret) for place in places.values()))
    return {name: why for name, why in zip(places, tried, strict=True) if why}


async def _dial(place: str, secret: str) -> str:
    host, port = _place(place)
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), DIAL_S)
        try:
            writer.write(bytes.fromhex(secret))
            answer = await asyncio.wait_for(reader.read(1), DIAL_S)
        finally:
            writer.close()
        why = "" if answer == _HERE else "something else answers there"
    except asyncio.TimeoutError:
        why = f"no answer within {DIAL_S:g} s"
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
    if not why:
        return ""
    here = way_to(host)
    return f"{why} (from {here})" if here else f"{why} (there is no route)"


def measure(place: str, secret: str) -> tuple[float, float]:
    """Return the bandwidth (bytes/s) and the round-trip time (s) to another host's probe. Raises OSError if the probe
    cannot be reached.
    """
    with socket.create_connection(_place(place), timeout=DIAL_S) as connected:
        connected.settimeout(_PATIENCE_S)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.sendall(bytes.fromhex(secret))
        _exactly(connected, 1)
        latency = min(_timed(connected, _ECHO) for _ in range(_ECHOES))
        block, count = bytes(_BLOCK_BYTES), _FIRST_BYTES
        while True:  # until the transfer takes long enough to measure the network rather than its buffers
            begun = time.perf_counter()
            connected.sendall(_TAKE + _COUNT.pack(count))
            for _ in range(count // _BLOCK_BYTES):
                connected.sendall(block)
            _exactly(connected, 1)
            seconds = time.perf_counter() - begun
            if seconds >= _MEASURE_S / 2 or count >= _MOST_BYTES:
                return count / seconds, latency
            count = min(_MOST_BYTES, _blocks(count * _MEASURE_S / seconds))


def _place(endpoint: str) -> tuple[str, int]:
    host, port = split_endpoint(endpoint)
    return host.strip("[]"), port


def _timed(connected: socket.socket, word: bytes) -> float:
    begun = time.perf_counter()
    connected.sendall(word)
    _exactly(connected, 1)
    return time.perf_counter() - begun


def _blocks(count: float) -> int:
    """Round a number of bytes to a whole number of blocks, at least two."""
    return max(2, round(count / _BLOCK_BYTES)) * _BLOCK_BYTES


def _exactly(connected: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connected.recv(count - len(data))
        if not more:
            raise ConnectionAbortedError("The connection was closed")
        data += more
    return data
