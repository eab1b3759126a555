"""Tests of a run's ipywidget, with events that the test provides."""

from __future__ import annotations

import asyncio
import base64
import math
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import ipywidgets
import pytest
import traitlets

import jupyter_dtf as dtf
from jupyter_dtf.errors import Conflict
from jupyter_dtf.schema.events import TaskChanged
from jupyter_dtf.schema.run import RunState, TaskState

from ..client.fake_run import FakeRun
from ..patience import left_s, until


@pytest.fixture
def fake() -> FakeRun:
    made = FakeRun()
    made.start()
    return made


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("dtf-widget")]


def test_it_follows_the_run_to_its_end(fake: FakeRun) -> None:
    widget = fake.run.widget()
    assert isinstance(widget, dtf.RunWidget)
    assert (widget.state, widget.metrics, widget.progress, widget.wait(0)) == ("running", {}, 0.0, False)
    fake.points("worker:0", "loss", [3, 2, 1])
    fake.points("worker:1", "loss", [3, 2])
    fake.points("worker:1", "cpu", [math.nan])
    fake.progress(30, 100, epoch=2, epochs=5)
    until(lambda: widget.epochs == 5, lambda: widget.epochs)
    assert (widget.progress, widget.steps, widget.epoch, widget.epochs) == (0.3, 100, 2, 5)
    fake.epoch(2, loss=1.25)
    fake.give(TaskChanged(time=5.0, task="worker:1", state=TaskState.PENDING, attempt=1))
    fake.end(RunState.FAILED, "<b>worker:1</b> died")
    assert widget.wait(left_s())
    assert (widget.state, widget.error, widget.attempt) == ("failed", "<b>worker:1</b> died", 1)
    assert widget.metrics["loss"] == 1.5
    assert widget.task_metrics["worker:0"] == {"loss": 1.0}
    assert widget.task_metrics["worker:1"]["loss"] == 2.0
    assert widget.best == {"loss": 1.25}
    assert set(widget.tasks) == {"worker:0", "worker:1"}
    sent = widget.get_state(["task_metrics", "state"])  # the state in a browser and in a saved notebook
    assert sent == {
        "task_metrics": {"worker:0": {"loss": 1.0}, "worker:1": {"loss": 2.0, "cpu": None}},
        "state": "failed",
    }
    (bar, stop, _pause, line), picture = widget.children[0].children, widget.children[2].value
    assert (bar.value, bar.bar_style, stop.disabled) == (0.3, "danger", True)
    assert "&lt;b&gt;worker:1" in line.value
    assert "loss" in base64.b64decode(picture.split("base64,")[1].split('"')[0]).decode()
    until(lambda: not threads(), threads)


def test_what_is_there_is_read_but_not_set(fake: FakeRun) -> None:
    with pytest.raises(dtf.NotFound):
        dtf.RunWidget(dtf.Run("none", in_session=fake.view))  # type: ignore[arg-type]
    widget = dtf.RunWidget(fake.run, layout=ipywidgets.Layout(width="50%"))
    with pytest.raises(traitlets.TraitError, match="read-only"):
        widget.state = "succeeded"
    assert widget.layout.width == "50%"
    assert ipywidgets.HBox([widget]).children == (widget,)
    widget.close()
    fake.end()
    assert (widget.state, threads()) == ("running", [])
    assert widget.wait(0)


def test_observers_are_called_on_the_loop_of_their_kernel(fake: FakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """While a cell waits, observers are called only if it waits for the widget."""
    seen: list[Any] = []

    async def cells() -> None:
        changed = asyncio.Event()
        widget = dtf.RunWidget(fake.run)

        def note(change: Any) -> None:
            seen.append((threading.current_thread(), change.new, widget.epoch))  # all traits have changed by now
            changed.set()

        def fail(_change: Any) -> None:
            raise ValueError("an observer's own")

        widget.observe(fail, "epoch")
        widget.observe(note, "metrics")
        fake.progress(1, 2, epoch=7, epochs=9)
        fake.points("worker:0", "loss", [0.5])
        await asyncio.wait_for(changed.wait(), left_s())
        before = len(seen)
        fake.points("worker:0", "loss", [0.25])
        until(lambda: "loss 0.25" in widget.children[0].children[3].value, "its line")  # the display does not wait
        assert len(seen) == before
        fake.end()
        assert await asyncio.to_thread(lambda: widget.wait(left_s()))
        await asyncio.sleep(0)
        assert (widget.state, widget.metrics) == ("succeeded", {"loss": 0.25})

    asyncio.run(cells())
    assert {thread for thread, _, _ in seen} == {threading.current_thread()}
    assert seen[-1][1:] == ({"loss": 0.25}, 7)
    assert "an observer's own" in capsys.readouterr().err


def test_a_cell_may_wait_for_it(fake: FakeRun) -> None:
    seen: list[Any] = []

    async def cell() -> None:
        widget = dtf.RunWidget(fake.run)

        def go_on(change: Any) -> None:
            seen.append(change.new)
            fake.end(RunState.STOPPED)

        widget.observe(go_on, "step")
        widget.observe(lambda change: seen.append(change.new), "state")
        fake.progress(1, 2)
        assert widget.wait(left_s())
        assert (widget.state, seen) == ("stopped", [1, "stopped"])

    asyncio.run(cell())


def test_waiting_ends_even_if_leaving_the_run_fails(
    fake: FakeRun, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    watch = fake.view.hub.watch

    def watched(run_id: str, changed: threading.Event) -> Callable[[], None]:
        watch(run_id, changed)

        def fail() -> None:
            raise RuntimeError("the session is gone")

        return fail

    monkeypatch.setattr(fake.view.hub, "watch", watched)

    async def cell() -> None:
        widget = dtf.RunWidget(fake.run)
        fake.end()
        assert widget.wait(left_s())

    asyncio.run(cell())
    assert "RunWidget has stopped following: RuntimeError: the session is gone" in caplog.text


def test_buttons_do_what_they_say_or_say_why_not(fake: FakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()
    monkeypatch.setattr(fake.run, "stop", stopped.set)

    def refuse() -> None:
        raise Conflict("A <run> must go on to be paused")

    monkeypatch.setattr(fake.run, "pause", refuse)
    widget = fake.run.widget()
    _bar, stop, pause, _line = widget.children[0].children
    stop.click()
    assert stopped.wait(left_s())
    pause.click()
    until(lambda: "A &lt;run&gt; must go on" in widget.children[1].value, lambda: widget.children[1].value)
    widget.close()


def test_without_ipywidgets_it_says_what_to_install() -> None:
    program = """
import sys
import jupyter_dtf as dtf
assert not {"ipywidgets", "traitlets", "IPython"} & set(sys.modules)
sys.modules["ipywidgets"] = None
for name in ("RunWidget", "ClusterWidget"):
    try:
        getattr(dtf, name)
    except dtf.Unavailable as error:
        print(error)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["Widgets need ipywidgets, which is not installed: pip install ipywidgets"] * 2
