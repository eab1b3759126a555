"""Tests of ``dtf.predict`` for several numbers of tasks, of ``dtf.plan``, and of the forecast of a real run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import keras
import numpy as np
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.forecasting import link_of
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.checkup import PairSpeed
from jupyter_dtf.schema.forecast import Forecast
from jupyter_dtf.schema.placement import Device


def network() -> keras.Model:
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(32), keras.layers.Dense(10)], name="small")
    model.compile("sgd", "mse")
    return model


def test_a_strategy_is_that_of_fit() -> None:
    strategy = dtf.ParameterServer(sync=True, backup_workers=1)
    found = dtf.predict(network(), device="A100", strategy=strategy, tasks=8, servers=2)
    assert isinstance(found, Forecast)
    assert (found.settings.sync, found.settings.backup_workers, found.settings.tasks) == (True, 1, [8])
    assert dtf.predict(network(), strategy="ps").settings.sync is False
    assert dtf.predict(network(), strategy=dtf.AllReduce(compression="fp16")).settings.compression == "fp16"
    assert dtf.predict(network(), strategy="pipeline").settings.strategy == "pipeline"


def test_machines_are_devices_or_a_design(tmp_path: Path) -> None:
    devices = [Device(name=f"/job:worker/task:{number}/device:CPU:0", flops_per_s=2e10) for number in range(4)]
    found = dtf.predict(network(), devices, tasks=[4], batch_size=64)
    assert found.points[0].batch_size == 64
    planned = dtf.plan(network(), examples_per_second=1e6, device="A100", per_device=512)
    assert planned.design is not None
    planned.design.save(tmp_path / "plan.dtf")
    again = dtf.predict(tmp_path / "plan.dtf", device="A100", tasks=[1])
    assert again.model == "small"


def test_what_is_refused() -> None:
    with pytest.raises(dtf.InvalidInput, match="unknown field `devise`"):
        dtf.predict(network(), devise="A100")
    with pytest.raises(
        dtf.InvalidInput, match="must be a cluster for network='measured', which is measured between its hosts"
    ):
        dtf.predict(network(), network="measured")
    with pytest.raises(dtf.InvalidInput, match="`placement` must be a Placement or map layers to devices"):
        dtf.predict(network(), 3, [])  # type: ignore[call-overload]
    with pytest.raises(dtf.InvalidInput, match="must have at least two hosts for network='measured', got one"):
        link_of([])


def test_pairs_of_hosts_are_one_link() -> None:
    pairs = [
        PairSpeed(source="a", target=target, bytes_per_second=speed, latency_seconds=0.002)
        for target, speed in (("b", 1e8), ("c", 3e8), ("d", 2e8))
    ]
    link = link_of(pairs)
    assert (link.bytes_per_s, link.latency_s) == (2e8, 0.001)


@pytest.fixture
def no_session_left() -> Iterator[None]:
    """Close the session after the test, because the next test has other directories."""
    yield
    session().close()


@pytest.mark.usefixtures("no_session_left")
def test_a_run_is_forecast_by_its_own_steps() -> None:
    x = np.random.default_rng(0).normal(size=(512, 64)).astype("float32")
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        run = cluster.fit(network(), x, x[:, :10], batch_size=32, epochs=2)
        ahead = dtf.predict(network(), cluster, tasks=[1, 2, 4])
    assert [point.tasks for point in ahead.points] == [1, 2, 4]
    found = run.forecast(tasks=[1, 2, 64], network="25gbit")
    assert found.source == "run" and found.settings.per_device == 16
    assert found.at(2).examples_per_second > 0
    report = run.efficiency()
    assert report.tasks == 2 and report.steps >= 8 and report.examples_per_second > 0
    measured = {gap.part: gap.measured_s for gap in report.gaps}
    assert list(measured) == ["step", "input", "compute", "exchange", "update", "checkpoint"]
    assert [part for part, seconds in measured.items() if seconds is None] == ["update"]
