from __future__ import annotations

import io
import os
import pty
import re
import threading

import pytest

from jupyter_dtf.client.progress import TerminalProgress, TimeLeft, epoch_line, note_line, progress_line
from jupyter_dtf.schema.events import EpochEnded, Note
from jupyter_dtf.schema.run import Progress, RunInfo, RunState

from .fake_run import FakeRun


def info(**changes: object) -> RunInfo:
    fields: dict[str, object] = {
        "id": "r",
        "name": "mlp",
        "cluster": "here",
        "state": RunState.RUNNING,
        "started": 100.0,
        "progress": Progress(done=25, total=100, epoch=2, epochs=5),
        "headline": {"loss": 0.25, "accuracy": 0.91234},
    }
    return RunInfo(**{**fields, **changes})  # type: ignore[arg-type]


class TestLine:
    def test_wide(self) -> None:
        line = progress_line(info(), 120, 30.0)
        assert line == "mlp running  ━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌  25%  epoch 2/5  30 s left  loss 0.25     accuracy 0.9123"

    @pytest.mark.parametrize("width", range(1, 100))
    def test_never_wider_than_the_terminal(self, width: int) -> None:
        assert len(progress_line(info(message="waits for hosts " * 10), width, 30.0)) <= width

    def test_narrow_keeps_what_matters_most(self) -> None:
        assert progress_line(info(), 50, 30.0) == "mlp running  25%  epoch 2/5  30 s left  loss 0.25"
        assert progress_line(info(), 20, 30.0) == "mlp running  25%"
        assert progress_line(info(), 8, 30.0) == "mlp run…"

    def test_the_bar_stays_before_further_metrics(self) -> None:
        line = progress_line(info(), 84, 30.0)
        assert line == "mlp running  ━━━╌╌╌╌╌╌╌╌╌  25%  epoch 2/5  30 s left  loss 0.25     accuracy 0.9123"
        assert progress_line(info(), 70, 30.0) == ("mlp running  ━━━╌╌╌╌╌╌╌╌╌  25%  epoch 2/5  30 s left  loss 0.25")

    def test_unknown_length(self) -> None:
        assert progress_line(info(progress=Progress(), headline={}), 80) == "mlp running"

    def test_a_run_that_waits_says_why(self) -> None:
        line = progress_line(
            info(state=RunState.PENDING, message="waits for a host", progress=Progress(), headline={}), 80
        )
        assert line == "mlp pending  waits for a host"

    def test_ended(self) -> None:
        line = progress_line(info(state=RunState.SUCCEEDED, ended=172.0), 200)
        assert "1m 12s" in line
        assert "left" not in line


def test_time_left_is_told_by_the_steps_after_the_first_seen() -> None:
    pace = TimeLeft()
    assert pace.left_s(info(progress=Progress(done=0, total=100)), 100.0) is None
    assert pace.left_s(info(progress=Progress(done=10, total=100)), 160.0) is None  # a minute of preparation
    assert pace.left_s(info(progress=Progress(done=20, total=100)), 170.0) == 80
    assert pace.left_s(info(progress=Progress(done=60, total=100)), 190.0) == pytest.approx(24)
    assert pace.left_s(info(progress=Progress(done=60)), 190.0) is None


def test_epoch_line() -> None:
    event = EpochEnded(time=1.0, epoch=1, step=10, logs={"loss": 0.123456, "val_loss": 2.0})
    assert epoch_line(event, info()) == "Epoch 2/5 - loss: 0.1235 - val_loss: 2"


def test_note_line() -> None:
    note = Note(time=1.0, level="warning", title="Weights differ", text="By 2e-3.", task="worker:1")
    assert note_line(note) == "warning (worker:1): Weights differ. By 2e-3."


def test_a_line_for_each_epoch_where_there_is_no_terminal() -> None:
    fake, stream = FakeRun(), io.StringIO()
    fake.start()
    with TerminalProgress(fake.run, stream):
        fake.epoch(0, loss=2.0)
        fake.log("worker:0", "not shown")
        fake.give(Note(time=1.0, level="warning", title="Slow"), Note(time=1.0, level="info", title="not shown"))
        fake.epoch(1, loss=1.0)
        fake.end()
    assert stream.getvalue() == "Epoch 1 - loss: 2\nwarning: Slow.\nEpoch 2 - loss: 1\n"


class Terminal:
    """A pseudo-terminal, and what a program has written to it."""

    def __init__(self, columns: int) -> None:
        import fcntl
        import struct
        import termios

        self._read, write = pty.openpty()
        fcntl.ioctl(write, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.stream = os.fdopen(write, "w", encoding="utf-8")
        self._data = b""
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        while True:
            try:
                chunk = os.read(self._read, 4096)
            except OSError:  # on Linux, this means that no writer is left
                return
            self._data += chunk

    def text(self) -> str:
        self.stream.close()
        self._thread.join()
        os.close(self._read)
        return self._data.decode()


@pytest.fixture(params=[40, 200])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("TERM", "xterm")
    return Terminal(request.param)


def test_one_line_that_is_rewritten_on_a_terminal(terminal: Terminal, request: pytest.FixtureRequest) -> None:
    fake = FakeRun()
    fake.start()
    with TerminalProgress(fake.run, terminal.stream) as progress:
        fake.progress(10, 100, epoch=1, epochs=2)
        fake.epoch(0, loss=2.0)
        progress.line("a line of its own")
        fake.points("worker:0", "accuracy", [0.5] * 3)
        fake.progress(100, 100, epoch=2, epochs=2)
        fake.end()
    text = terminal.text()
    columns = request.node.callspec.params["terminal"]
    lines = text.split("\r\n")
    assert lines[-1] == ""
    for line in lines:
        for drawn in line.split("\r\x1b[K"):
            assert len(drawn) < columns
    assert re.search(r"\r\x1b\[KEpoch 1/2 - loss: 2\r\n", text)
    assert re.search(r"\r\x1b\[Ka line of its own\r\n", text)
    assert lines[-2].split("\r\x1b[K")[-1].startswith("mlp succeeded  ")
    assert "100%" in lines[-2]
