"""How a host cuts what comes out of a task's pipes."""

from __future__ import annotations

import pytest

from jupyter_dtf.backend.host_task import _Lines
from jupyter_dtf.schema.events import Logged, decode_event


def cut(*chunks: bytes) -> list[tuple[int, list[str]]]:
    sent: list[bytes] = []
    lines = _Lines("worker:0", "stdout", sent.append)
    for chunk in chunks:
        lines(chunk)
    events = [decode_event(data) for data in sent]
    return [(event.first, event.lines) for event in events if isinstance(event, Logged)]


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([b"one\ntwo\n"], [(0, ["one", "two"])]),
        ([b"o", b"ne\ntw", b"o", b""], [(0, ["one"]), (1, ["two"])]),
        ([b"\n", b"\n"], [(0, [""]), (1, [""])]),
        ([b"1 %\r2 %\r", b"3 %\n"], [(0, ["1 %\r"]), (1, ["2 %\r3 %"])]),
        ([b"windows\r", b"\nline\r\n"], [(0, ["windows", "line"])]),
        ([b"\xff\xfe\n"], [(0, ["\ufffd\ufffd"])]),
        ([b""], []),
    ],
)
def test_lines(chunks: list[bytes], expected: list[tuple[int, list[str]]]) -> None:
    assert cut(*chunks) == expected


def test_a_line_without_an_end_does_not_wait_for_ever() -> None:
    ((first, (line,)),) = cut(b"x" * 70_000)
    assert (first, len(line)) == (0, 70_000)
