"""Tests of alarms of runs: in their events and summaries, and delivered to functions and commands."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.notifications import Told
from jupyter_dtf.client.session import session
from jupyter_dtf.errors import Unavailable
from jupyter_dtf.schema.events import Note
from jupyter_dtf.schema.notify import Alarm
from jupyter_dtf.schema.run import RunInfo

from ..patience import left_s
from .fake_run import FakeRun

pytestmark = pytest.mark.module_directories


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 2}, name="told") as shared:
        yield shared
    session().close()


def test_a_store_that_is_busy_for_a_while_ends_no_telling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_dtf.client.notifications.RETRY_S", 0.01)
    fake, heard = FakeRun(), list[Alarm]()
    fake.start()
    refusals = iter([Unavailable("busy")] * 3)
    info = fake.view.hub.info

    def busy(run_id: str) -> RunInfo:
        for error in refusals:
            raise error
        return info(run_id)

    monkeypatch.setattr(fake.view.hub, "info", busy)
    telling = Told(fake.run, dtf.Notify(call=heard.append))
    fake.give(Note(time=3.0, level="warning", title="loss is NaN", alarm="nan"))
    fake.end()
    telling.thread.join(left_s())
    assert [alarm.about for alarm in heard] == ["nan"]
    assert next(refusals, None) is None


def waits(args: Any, ctx: Any) -> None:
    ctx.report(1, loss=math.nan)
    ctx.stop_requested.wait()


def test_a_metric_that_is_nan_an_idle_device_and_the_end(cluster: dtf.Cluster, tmp_path: Path) -> None:
    heard: list[Alarm] = []
    said = tmp_path / "said"
    write = "import os, sys; print(os.environ['JUPYTER_DTF_ALARM'], sys.argv[2], file=open(sys.argv[1], 'a'))"
    script = tmp_path / "write.py"
    script.write_text(write)
    notify = dtf.Notify(idle_s=1, call=heard.append, command=[sys.executable, str(script), str(said)])
    run = cluster.run(waits, notify=notify, name="waits", wait=False)
    run.wait_for(lambda info: {"nan", "idle"} <= {alarm.about for alarm in info.alarms}, left_s())
    run.stop()
    run.wait(left_s())
    assert run.told is not None
    run.told.join(left_s())
    alarms = run.info.alarms
    assert alarms == heard
    assert [alarm.title for alarm in alarms if alarm.about == "nan"] == [next(iter(run.info.not_finite.values()))]
    assert {alarm.task for alarm in alarms if alarm.about == "idle"} <= {"worker:0", "worker:1"}
    assert (alarms[-1].about, alarms[-1].title) == ("end", "waits was stopped")
    assert said.read_text().splitlines() == [f"{alarm.about} {alarm.title}" for alarm in heard]


def test_a_training_that_does_not_improve(cluster: dtf.Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.0), "mse")
    x = np.ones((8, 2), dtype="float32")
    heard: list[str] = []

    def tell(alarm: Alarm) -> None:
        heard.append(alarm.title)
        raise ValueError("which is logged, and no reason to stop")

    wanted = dtf.Notify(no_improvement=2, idle_s=None, memory=None, call=tell)
    run = cluster.fit(model, x, x[:, :1], batch_size=8, epochs=3, shuffle=False, notify=wanted, name="flat")
    assert heard == ["loss has not improved for 2 epochs", "flat has succeeded"]
    assert "warning: loss has not improved for 2 epochs." in capsys.readouterr().err
    assert (run.info.origin.weights, run.info.origin.data) == (3, "arrays")
    assert run.code[0].name == __file__
    assert cluster.run(waits, wait=False, name="quiet").info.alarms == []
