"""How a host splits the output of a task's pipes into lines, and where it sends and saves them."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from jupyter_dtf.backend.host import host_task
from jupyter_dtf.backend.host.host_output import BURST_BYTES, TAIL_BYTES, StreamOutput, TaskOutput
from jupyter_dtf.backend.host.host_task import READS_AT_ONCE, PipeReader
from jupyter_dtf.backend.records import output_files
from jupyter_dtf.backend.records.output_reader import OutputReader
from jupyter_dtf.schema.events import Logged, Note, decode_event

from ...patience import left_s


def cut(*chunks: bytes) -> list[tuple[int, list[str]]]:
    sent: list[bytes] = []
    lines = StreamOutput("worker:0", "stdout", sent.append)
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


def logged(sent: list[bytes]) -> list[Logged]:
    return [event for event in map(decode_event, sent) if isinstance(event, Logged)]


def test_what_is_printed_too_fast_goes_to_the_file_and_its_end_to_viewers(tmp_path: Path) -> None:
    sent: list[bytes] = []

    async def print_much() -> None:
        output = TaskOutput("worker:0", tmp_path, sent.append)
        chunk = b"".join(b"%099d\n" % number for number in range(10_000))
        for _ in range(20):
            output.streams["stdout"](chunk)
        output.streams["stdout"](b"the last words")
        output.streams["stdout"](b"")
        output.finish()

    asyncio.run(print_much())
    assert sum(map(len, sent)) < BURST_BYTES + 2 * TAIL_BYTES
    events = logged(sent)
    assert events[-1].lines[-1] == "the last words"
    assert events[-1].first + len(events[-1].lines) == 200_001
    ends = [event.first + len(event.lines) for event in events]
    assert all(event.first >= end for event, end in zip(events[1:], ends, strict=False))  # the numbers show the gaps
    with OutputReader(tmp_path, "worker:0") as reader:
        assert reader.total("stdout") == 200_001
        lines = [line for block in reader.blocks({}) for line in block.lines]
    assert lines[:-1] == [f"{number:099}" for number in range(10_000)] * 20
    assert lines[-1] == "the last words"


def test_after_too_much_the_end_is_sent_without_another_word(tmp_path: Path) -> None:
    async def print_much() -> list[bytes]:
        came = asyncio.Event()
        sent: list[bytes] = []

        def send(data: bytes) -> None:
            sent.append(data)
            if logged([data])[0].lines[-1] == "the end of it":
                came.set()

        output = TaskOutput("worker:0", tmp_path, send)
        output.streams["stdout"](b"x\n" * BURST_BYTES + b"the end of it\n")
        assert not came.is_set()
        await asyncio.wait_for(came.wait(), left_s())
        output.finish()
        return sent

    assert sum(map(len, asyncio.run(print_much()))) < BURST_BYTES + 2 * TAIL_BYTES


def test_a_quiet_pipe_is_read_at_once_and_a_busy_one_at_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a program is not delayed by the heartbeat before it, but frequent points are read together."""
    monkeypatch.setattr(host_task, "READ_INTERVAL_S", 3600.0)

    async def write_often() -> tuple[list[bytes], list[bytes]]:
        read, write = os.pipe()
        got: list[bytes] = []
        pipe = PipeReader(read, got.append)
        for number in range(READS_AT_ONCE + 5):
            os.write(write, b"%d" % number)
            await asyncio.sleep(0)  # one iteration of the event loop, in which the data is read
            await asyncio.sleep(0)
        at_once = got.copy()
        pipe.finish()
        os.close(write)
        return at_once, got

    at_once, got = asyncio.run(write_often())
    assert at_once == [b"0", b"1", b"2"]
    assert got == [*at_once, b"34567", b""]


def test_what_is_read_at_the_end_is_what_the_pipe_holds_then() -> None:
    """A process outside the task's process group may hold the pipe open and keep writing."""

    async def end() -> list[bytes]:
        read, write = os.pipe()
        got: list[bytes] = []

        def take(data: bytes) -> None:
            got.append(data)
            os.write(write, b"more")

        pipe = PipeReader(read, take)
        os.write(write, b"last words")
        pipe.finish()
        os.close(write)
        return got

    assert asyncio.run(end()) == [b"last words", b""]


def test_a_disk_that_refuses_is_told_once_and_when_it_takes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_files, "RETRY_S", 0.0)
    sent: list[bytes] = []
    run_dir = tmp_path / "runs" / "r"
    run_dir.parent.touch()  # a file in place of a directory: writing fails even for root
    output = TaskOutput("worker:0", run_dir, sent.append)
    for number in range(3):
        output.streams["stdout"](b"line %d\n" % number)
    run_dir.parent.unlink()
    output.streams["stdout"](b"line 3\n")
    output.finish()
    notes = [event for event in map(decode_event, sent) if isinstance(event, Note)]
    assert [(note.level, note.title) for note in notes] == [
        ("warning", "The output of worker:0 is not being saved"),
        ("info", "The output of worker:0 is being saved again"),
    ]
    assert "Not a directory" in notes[0].text
    assert [line for event in logged(sent) for line in event.lines] == ["line 0", "line 1", "line 2", "line 3"]
    with OutputReader(run_dir) as reader:
        assert [line for block in reader.blocks({}) for line in block.lines] == ["line 0", "line 1", "line 2", "line 3"]


async def test_a_later_attempt_numbers_its_lines_after_those_before(tmp_path: Path) -> None:
    def printed(attempt: int, line: bytes, known: dict[str, int]) -> list[tuple[int, int, list[str]]]:
        sent: list[bytes] = []
        output = TaskOutput("worker:0", tmp_path, sent.append, attempt, known)
        output.streams["stdout"](line)
        output.streams["stdout"](b"")
        output.finish()
        return [(event.attempt, event.first, event.lines) for event in logged(sent)]

    assert printed(0, b"one\ntwo\n", {}) == [(0, 0, ["one", "two"])]
    assert printed(1, b"three\n", {"stdout": 1}) == [(1, 2, ["three"])], "the file has more than was heard of"
    assert printed(2, b"four\n", {"stdout": 3}) == [(2, 3, ["four"])]
    with OutputReader(tmp_path, "worker:0") as found:
        assert [line for block in found.before()[0] for line in block.lines] == ["one", "two", "three", "four"]


async def test_where_there_are_no_files_the_numbers_go_on_from_what_was_heard() -> None:
    sent: list[bytes] = []
    output = TaskOutput("worker:0", None, sent.append, 1, {"stderr": 7})
    output.streams["stderr"](b"eighth\n")
    output.finish()
    assert [(event.first, event.kept) for event in logged(sent)] == [(7, False)]


async def test_a_process_that_goes_over_to_another_attempt_goes_on_with_its_lines(tmp_path: Path) -> None:
    sent: list[bytes] = []
    output = TaskOutput("worker:0", tmp_path, sent.append)
    output.streams["stdout"](b"one\ntwo")
    output.begin_attempt(1)
    output.streams["stdout"](b"\nthree\n")
    output.finish()
    assert [(event.attempt, event.first, event.lines) for event in logged(sent)] == [
        (0, 0, ["one"]),
        (1, 1, ["two", "three"]),
    ]
