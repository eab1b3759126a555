"""Attempts to reach a cluster's ports by other users of the machine and from other machines."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import psutil

from ..patience import left_s

OTHER_UID = 65534

_SPEAK = """
import json, os, socket, sys

uid, doors, patience_s = json.loads(sys.argv[1])
if uid != os.getuid():
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
said = []
for host, port, source in doors:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as client:
            client.settimeout(patience_s)
            if source:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
                client.bind(("127.77.77.77", source))
            client.connect((host, port))
            client.sendall(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
            said.append(client.recv(64).hex())
    except OSError as error:
        said.append(type(error).__name__)
print(json.dumps(said))
"""


@dataclass(frozen=True)
class Listener:
    """A TCP socket that listens, with one of the processes that hold it."""

    pid: int
    address: str
    port: int


def listeners(pids: list[int]) -> set[Listener]:
    """Return the sockets on which processes, and the processes that they have started, listen."""
    found = set()
    for process in [each for pid in pids for each in (psutil.Process(pid), *psutil.Process(pid).children(True))]:
        with contextlib.suppress(psutil.NoSuchProcess):
            for connection in process.net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    found.add(Listener(process.pid, connection.laddr.ip, connection.laddr.port))
    return found


def addresses() -> list[str]:
    """Return the addresses of this machine at which its ports could be reached."""
    found = [
        each.address
        for interface in psutil.net_if_addrs().values()
        for each in interface
        if each.family in (socket.AF_INET, socket.AF_INET6) and "%" not in each.address
    ]
    return sorted({"127.0.0.1", "127.3.2.1", *found})


def speak(
    doors: list[tuple[str, int, int]], uid: int = OTHER_UID, prefix: tuple[str, ...] = (), patience_s: float = 20
) -> list[str]:
    """Send the start of HTTP/2 to each door (host, port, source port or 0) as a user. Return each response, in hex, or
    the name of the error.
    """
    program = [*prefix, sys.executable, "-I", "-S", "-c", _SPEAK, json.dumps([uid, doors, patience_s])]
    said: list[str] = json.loads(subprocess.run(program, check=True, capture_output=True, timeout=left_s()).stdout)
    return said


def sources(port: int) -> set[int]:
    """Return the ports from which a gate connects to the server at ``port``. TensorFlow connects from 127.0.0.1."""
    return {
        here.port
        for connection in psutil.net_connections("tcp")
        if (there := connection.raddr)
        and there.port == port
        and (here := connection.laddr)
        and here.ip.startswith("127.")
        and here.ip != "127.0.0.1"
    }


def is_answer(said: str) -> bool:
    """Return whether a response comes from a server: it begins with the first frame of HTTP/2, SETTINGS."""
    return len(said) >= 18 and said[6:8] == "04"


def assert_only_its_user_gets_in(ports: set[int]) -> None:
    """Check that only processes of this user get a response at any address of the machine."""
    doors: list[tuple[str, int, int]] = [(host, port, 0) for host in addresses() for port in sorted(ports)]
    own = speak([door for door in doors if door[0] == "127.0.0.1"], os.getuid())
    assert own and all(map(is_answer, own)), own
    as_gate: list[tuple[str, int, int]] = [("127.0.0.1", port, source) for port in ports for source in sources(port)]
    said = dict(zip([*doors, *as_gate], speak([*doors, *as_gate]), strict=True))
    assert set(said.values()) <= {"", "ConnectionResetError", "BrokenPipeError", "OSError"}, said
    assert as_gate
    for door in as_gate:
        assert said[door] == "OSError", said  # others cannot use the port from which the gate connects


def tasks(info: Any) -> list[int]:
    """Return the process ids of a run's tasks."""
    return [task.pid for task in info.tasks]
