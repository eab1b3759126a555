from __future__ import annotations

import base64

import pytest

from jupyter_dtf.schema.run import RunState

from ..client.fake_run import FakeRun
from ..patience import left_s


def test_it_follows_the_run_to_its_end() -> None:
    fake = FakeRun()
    fake.start()
    widget = fake.run.widget()
    bar, stop, line = widget.children[0].children
    assert not widget.wait(0)
    fake.points("worker:0", "loss", [3, 2, 1])
    fake.progress(100, 100)
    fake.end()
    assert widget.wait(left_s())
    assert (bar.value, bar.max, bar.bar_style) == (100, 100, "success")
    assert stop.disabled
    assert line.value == "mlp · succeeded · loss 1"
    picture = base64.b64decode(widget.children[1].value.split("base64,")[1].split('"')[0]).decode()
    assert "loss" in picture


def test_the_button_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeRun()
    fake.start()
    widget = fake.run.widget()
    stopped = []
    monkeypatch.setattr(fake.run, "stop", lambda: stopped.append(True))
    widget.children[0].children[1].click()
    assert stopped == [True]
    fake.end(RunState.FAILED, "<b>worker:1</b> died")
    assert widget.wait(left_s())
    assert "&lt;b&gt;worker:1" in widget.children[0].children[2].value
