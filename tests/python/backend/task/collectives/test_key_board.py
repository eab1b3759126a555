"""Tests of the board for deadlock detection, which the first task of a run hosts."""

from __future__ import annotations

import socket
import threading
from types import SimpleNamespace
from typing import Any

from jupyter_dtf.backend.task.collectives.deadlocks import GONE
from jupyter_dtf.backend.task.collectives.tcp.key_board import KeyBoard
from jupyter_dtf.backend.task.collectives.tcp.wires import Incoming, Peer


class FakeLinks:
    """A stand-in for ``Links`` that has one end of a single connection from task 1 to task 0."""

    def __init__(self, rank: int, end: socket.socket) -> None:
        self.rank = rank
        self._end = end

    def serve(self, group: str, service: Any) -> None:
        incoming = Incoming(self._end, Peer(1, "worker:1", "b"), 60.0)
        threading.Thread(target=service, args=(incoming, self._end), daemon=True).start()

    def dial_raw(self, group: str, rank: int) -> socket.socket:
        return self._end


def test_the_first_task_stays_until_the_others_have_heard_or_have_gone() -> None:
    ends = socket.socketpair()
    kept, other = (KeyBoard(FakeLinks(rank, end)) for rank, end in enumerate(ends))  # type: ignore[arg-type]
    other.write("waits-1", "for worker:0")
    assert kept.read("waits-1") == "for worker:0"
    order = []

    def stay() -> None:
        kept.linger()
        order.append("ends")

    for hear in (lambda: other.read(f"{GONE}-0"), ends[1].close):
        kept.write(f"{GONE}-0", "different calls")
        staying = threading.Thread(target=stay)
        staying.start()
        order.append("hears")
        hear()
        staying.join()
    assert order == ["hears", "ends"] * 2


def test_what_many_calls_wait_for_arrives_whole() -> None:
    ends = socket.socketpair()
    kept, other = (KeyBoard(FakeLinks(rank, end)) for rank, end in enumerate(ends))  # type: ignore[arg-type]
    waits = "é" * 100_000
    other.write("waits-1", waits)
    assert kept.read("waits-1") == waits
    kept.write("waits-0", waits)
    assert other.read("waits-0") == waits
    for end in ends:
        end.close()


def test_nobody_is_waited_for_where_there_is_nobody() -> None:
    kept = KeyBoard(SimpleNamespace(rank=0, serve=lambda group, service: None))  # type: ignore[arg-type]
    kept.linger()
