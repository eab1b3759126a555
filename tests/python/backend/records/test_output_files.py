"""The output of tasks in files, written by hosts and read in pages."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from jupyter_dtf.backend.records import output_files, output_reader
from jupyter_dtf.backend.records.output_files import MOST_WAITING_BYTES, Clock, OutputWriter, lines_file, remove_output
from jupyter_dtf.backend.records.output_reader import PAGE_BYTES, OutputReader
from jupyter_dtf.schema.events import Logged


class Written:
    """A run's output, as hosts write it."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.clock = Clock()
        self.writers: dict[tuple[str, str], OutputWriter] = {}
        self.next: dict[tuple[str, str], int] = {}

    def write(self, task: str, *lines: str, stream: str = "stdout") -> None:
        source = task, stream
        writer = self.writers.setdefault(source, OutputWriter(lines_file(self.run_dir, task, stream)))
        first = self.next.get(source, 0)
        writer.write(self.clock.now(), first, len(lines), "".join(f"{line}\n" for line in lines).encode())
        self.next[source] = first + len(lines)

    def close(self) -> None:
        for writer in self.writers.values():
            writer.close()

    def open(self, task: str = "") -> OutputReader:
        return OutputReader(self.run_dir, task)


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def texts(events: list[Logged]) -> list[str]:
    return [f"{event.task} {line}" for event in events for line in event.lines]


def test_blocks_come_back_in_the_order_in_which_they_were_written(written: Written) -> None:
    written.write("worker:0", "a", "")
    written.write("worker:1", "b")
    written.write("worker:0", "ü", "d", stream="stderr")
    written.write("worker:0", "50 %\r")
    with written.open() as found:
        places: dict[tuple[str, str], int] = {}
        blocks = list(found.blocks(places))
        assert texts(blocks) == ["worker:0 a", "worker:0 ", "worker:1 b", "worker:0 ü", "worker:0 d", "worker:0 50 %\r"]
        assert [(block.stream, block.first) for block in blocks] == [
            ("stdout", 0),
            ("stdout", 0),
            ("stderr", 0),
            ("stdout", 2),
        ]
    written.write("worker:1", "later")
    with written.open() as found:
        assert texts(list(found.blocks(places))) == ["worker:1 later"]
    written.close()


def test_a_block_that_one_host_writes_late_is_not_missed(written: Written) -> None:
    early = written.clock.now()
    written.write("worker:0", "a")
    places: dict[tuple[str, str], int] = {}
    with written.open() as found:
        assert texts(list(found.blocks(places))) == ["worker:0 a"]
    late = OutputWriter(lines_file(written.run_dir, "worker:1", "stdout"))
    late.write(early, 0, 1, b"b\n")
    late.close()
    with written.open() as found:
        assert texts(list(found.blocks(places))) == ["worker:1 b"]
    written.close()


def test_pages_back_from_the_end_and_on_from_the_beginning_have_every_line_once(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_reader, "PAGE_BYTES", 100)
    for number in range(60):
        written.write(f"worker:{number % 3}", f"line {number}", stream="stderr" if number % 2 else "stdout")
    expected = [f"worker:{number % 3} line {number}" for number in range(60)]
    with written.open() as found:
        page, earlier = found.before()
        back = texts(page)
        pages = 1
        while earlier:
            page, earlier = found.before(page[0].time)
            back = texts(page) + back
            pages += 1
        assert (back, pages) == (expected, 5)
        page, later = found.after(0.0)
        on = texts(page)
        while later:
            page, later = found.after(page[-1].time)
            on += texts(page)
        assert on == expected
    with written.open("worker:1") as found:
        page, _ = found.before()
        assert texts(page)[-1] == "worker:1 line 58"
        assert {event.task for event in page} == {"worker:1"}
    written.close()


@pytest.mark.parametrize(
    ("first", "count", "expected"),
    [(0, 2, (0, ["0", "1"])), (7, 5, (7, ["7", "8", "9"])), (-3, 2, (7, ["7", "8"])), (10, 5, (10, []))],
)
def test_lines_are_found_by_their_numbers(
    written: Written, first: int, count: int, expected: tuple[int, list[str]]
) -> None:
    for start in range(0, 10, 2):
        written.write("worker:0", str(start), str(start + 1))
    with written.open("worker:0") as found:
        lines = found.lines("stdout", first, count)
        assert lines is not None
        assert (lines.first, lines.lines) == expected
        assert (found.total("stdout"), found.total("stderr"), found.lines("stderr", 0, 1)) == (10, 0, None)
    written.close()


def test_a_page_of_lines_is_bounded(written: Written) -> None:
    for _ in range(20):
        written.write("worker:0", "x" * (PAGE_BYTES // 4))
    with written.open("worker:0") as found:
        lines = found.lines("stdout", 0, 1000)
        assert lines is not None
        assert len(lines.lines) == 4
        page, earlier = found.before()
        assert (len(page), earlier) == (3, True)  # with their line feeds
    written.close()


def test_what_is_being_written_is_not_read_by_half(written: Written) -> None:
    written.write("worker:0", "whole")
    index = output_files.index_file(lines_file(written.run_dir, "worker:0", "stdout"))
    with index.open("ab") as file:
        file.write(b"\1" * (output_files.ENTRY_BYTES - 1))
    with written.open() as found:
        assert texts(found.before()[0]) == ["worker:0 whole"]
    written.close()


def test_a_run_without_output_has_none(tmp_path: Path) -> None:
    with OutputReader(tmp_path / "nothing") as found:
        assert (found.found, found.before(), list(found.blocks({}))) == (False, ([], False), [])
    with OutputReader(Path()) as found:
        assert not found.found


def test_output_is_forgotten_with_what_the_program_left_kept(written: Written) -> None:
    written.write("worker:0", "a")
    written.close()
    file = lines_file(written.run_dir, "worker:0", "stdout")
    assert [path.stat().st_mode & 0o777 for path in (file.parent, file)] == [0o700, 0o600]
    (written.run_dir / "checkpoint").touch()
    remove_output(written.run_dir)
    assert [path.name for path in written.run_dir.iterdir()] == ["checkpoint"]
    (written.run_dir / "checkpoint").unlink()
    remove_output(written.run_dir)
    assert not written.run_dir.exists()


class Disk:
    """A disk that becomes full in the middle of a write."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._pwrite = os.pwrite
        monkeypatch.setattr(os, "pwrite", self._write)
        monkeypatch.setattr(output_files, "RETRY_S", 0.0)

    def _write(self, fd: int, data: bytes, offset: int) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._pwrite(fd, data[: self.room], offset)
        self.room -= written
        return written


def test_what_a_full_disk_refuses_is_written_when_there_is_room(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, room=200)
    for number in range(10):
        written.write("worker:0", f"a line of the task, number {number}")
    writer = written.writers["worker:0", "stdout"]
    assert writer.error is not None
    assert writer.error.errno == errno.ENOSPC
    with written.open() as found:
        assert texts(found.before()[0]) == [f"worker:0 a line of the task, number {number}" for number in (0, 1)]
    disk.room = 10_000
    written.write("worker:0", "a line of the task, number 10")
    assert [writer.error, writer.lost] == [None, 0]
    with written.open() as found:
        assert texts(found.before()[0]) == [f"worker:0 a line of the task, number {number}" for number in range(11)]
    written.close()


def test_what_waits_for_room_is_bounded_and_what_is_lost_is_counted(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(monkeypatch, room=0)
    line = "x" * 9_999
    for _ in range(300):
        written.write("worker:0", line)
    writer = written.writers["worker:0", "stdout"]
    kept = MOST_WAITING_BYTES // 10_000
    assert writer.lost == 300 - kept
    disk.room = 10_000_000
    written.write("worker:0", "the last")
    with written.open("worker:0") as found:
        first = found.lines("stdout", 0, 1)
        assert first is not None
        assert first.first == writer.lost
        assert found.total("stdout") == 301
    disk.room = 0
    written.write("worker:0", "gone")
    written.close()
    assert writer.lost == 300 - kept + 1


def test_a_task_that_is_started_again_goes_on_in_its_files(written: Written) -> None:
    written.write("worker:0", "first", "second")
    written.close()
    again = OutputWriter(lines_file(written.run_dir, "worker:0", "stdout"), goes_on=True)
    assert again.last is not None
    assert again.last.first + again.last.lines == 2
    again.write(written.clock.now(), 2, 1, b"third\n")
    again.close()
    with written.open("worker:0") as found:
        page, more = found.before()
        assert (texts(page), more) == (["worker:0 first", "worker:0 second", "worker:0 third"], False)
        lines = found.lines("stdout", 1, 10)
        assert lines is not None
        assert (lines.first, lines.lines) == (1, ["second", "third"])


def test_half_a_block_of_a_host_that_was_killed_is_written_over(written: Written) -> None:
    written.write("worker:0", "whole")
    written.write("worker:0", "torn")
    written.close()
    path = lines_file(written.run_dir, "worker:0", "stdout")
    os.truncate(path, path.stat().st_size - 2)
    again = OutputWriter(path, goes_on=True)
    again.write(written.clock.now(), 1, 1, b"anew\n")
    again.close()
    with written.open() as found:
        assert texts(found.before()[0]) == ["worker:0 whole", "worker:0 anew"]


def test_the_first_attempt_of_a_task_begins_its_files_anew(written: Written) -> None:
    written.write("worker:0", "of another time")
    written.close()
    OutputWriter(path := lines_file(written.run_dir, "worker:0", "stdout")).write(1.0, 0, 1, b"new\n")
    assert path.read_bytes() == b"new\n"
