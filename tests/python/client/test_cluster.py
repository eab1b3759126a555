"""Tests of ``Cluster`` and ``Run`` on a real cluster."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session

from ..patience import left_s, until

pytestmark = pytest.mark.module_directories


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 2}, name="shared") as shared:
        yield shared
    session().close()


def program(args: Any, ctx: Any) -> Any:
    print("hello from", ctx.task)
    ctx.report(loss=1.0)
    ctx.report(loss=0.5)
    if args == "fail" and ctx.rank == 1:
        raise ValueError("no luck")
    if args == "die" and ctx.rank == 1:
        os.kill(os.getpid(), 9)
    if args in ("wait", "fail", "die"):
        ctx.stop_requested.wait()
    return ctx.rank, args


class TestCluster:
    def test_what_it_is(self, cluster: dtf.Cluster) -> None:
        cluster.wait_ready()
        assert (cluster.name, cluster.status, cluster.jobs) == ("shared", "running", {"worker": 2})
        assert cluster.devices == ["/job:worker/task:0/device:CPU:0", "/job:worker/task:1/device:CPU:0"]
        assert cluster.main_devices == cluster.devices
        assert [len(cluster.spec.as_dict()["worker"])] == [2]
        assert repr(cluster) == "<Cluster shared: running, local, 2 workers>"

    def test_its_machines_over_time(self, cluster: dtf.Cluster) -> None:
        cluster.wait_ready()
        until(lambda: (cluster.machines()["metric"] == "cpu").sum() >= 2, "two readings of the host")
        found = cluster.machines()
        assert list(found.columns) == ["host", "metric", "time", "value"]
        assert set(found["host"]) == {host.name for host in cluster.info.hosts}
        assert {"cpu", "memory_bytes", "machine_cpu", "sent_bytes_per_second"} <= set(found["metric"])
        cpu = found.query("metric == 'cpu'")
        assert cpu["time"].is_monotonic_increasing
        newer = cluster.machines(after=cpu["time"].iloc[0])
        assert newer["time"].min() > cpu["time"].iloc[0]

    def test_connect(self, cluster: dtf.Cluster) -> None:
        cluster.wait_ready()
        assert dtf.connect("shared").jobs == {"worker": 2}
        assert [each.name for each in dtf.clusters()] == ["shared"]
        with pytest.raises(dtf.NotFound, match="no cluster named 'nope'"):
            dtf.connect("nope")

    def test_scale_is_seen_at_once(self, cluster: dtf.Cluster) -> None:
        assert cluster.scale({"worker": 3}).jobs == {"worker": 3}
        assert len(cluster.devices) == 3
        assert cluster.scale(2).jobs == {"worker": 2}

    def test_closed(self, cluster: dtf.Cluster) -> None:
        other = dtf.Cluster(1, name="other")
        assert other.jobs == {"worker": 1}
        other.close()
        other.close()
        assert other.status == "stopped"
        assert repr(other) == "<Cluster other: stopped>"

    @pytest.mark.parametrize(
        ("arguments", "error", "said"),
        [
            ({"jobs": {}}, dtf.InvalidInput, "at least one job"),
            ({"jobs": {"worker": 0}}, dtf.InvalidInput, "worker=0"),
            ({"name": "Bad Name"}, dtf.InvalidInput, "'Bad Name'"),
            ({"jobs": True}, dtf.InvalidInput, "True"),
            ({"jobs": -1}, dtf.InvalidInput, "worker=-1"),
            ({"name": "shared"}, dtf.Conflict, "`dtf.connect('shared')` connects to it"),
            ({"grace_s": -1}, dtf.InvalidInput, "-1"),
            ({"hosts": 0}, dtf.InvalidInput, "at least 1"),
            ({"nonsense": 1}, dtf.InvalidInput, "'nonsense'"),
            ({"backend": "nope"}, dtf.NotFound, "'nope'"),
        ],
    )
    def test_bad_input(
        self, cluster: dtf.Cluster, arguments: dict[str, Any], error: type[Exception], said: str
    ) -> None:
        with pytest.raises(error) as raised:
            dtf.Cluster(**arguments)
        assert said in str(raised.value)

    def test_it_ends_with_the_process_that_made_it(self, cluster: dtf.Cluster) -> None:
        code = "import jupyter_dtf as dtf; print(dtf.Cluster(jobs={'worker': 1}, name='brief').wait_ready().status)"
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=left_s(), check=False
        )
        assert (found.returncode, found.stdout, found.stderr) == (0, "running\n", "")
        with pytest.raises(dtf.NotFound):
            dtf.connect("brief")

    @pytest.mark.parametrize(
        ("method", "given", "said"),
        [
            ("fit", "epoch", "Cluster.fit() got an unexpected keyword argument 'epoch'. Did you mean 'epochs'?"),
            ("run", "job", "Cluster.run() got an unexpected keyword argument 'job'. Did you mean 'jobs'?"),
            ("predict", "step", "Cluster.predict() got an unexpected keyword argument 'step'. Did you mean 'steps'?"),
            ("search", "trial", "Cluster.search() got an unexpected keyword argument 'trial'. Did you mean 'trials'?"),
            ("servers", "quickly", "Cluster.servers() got an unexpected keyword argument 'quickly'. It accepts jobs, "),
        ],
    )
    def test_an_argument_that_there_is_not(self, cluster: dtf.Cluster, method: str, given: str, said: str) -> None:
        with pytest.raises(TypeError, match=re.escape(said)):
            getattr(cluster, method)(None, **{given: 3})

    def test_fit_has_the_arguments_of_keras(self) -> None:
        ours, theirs = (inspect.signature(fit).parameters for fit in (dtf.Cluster.fit, keras.Model.fit))
        assert {name: ours[name].default for name in theirs} == {name: each.default for name, each in theirs.items()}


class TestRun:
    def test_results_output_and_metrics(self, cluster: dtf.Cluster) -> None:
        run = cluster.run(program, {"k": 3})
        assert run.status == "succeeded"
        assert run.result() == [(0, {"k": 3}), (1, {"k": 3})]
        assert run.result()["worker:1"] == (1, {"k": 3})
        assert run.logs("worker", 1) == "hello from worker:1"
        assert sorted(run.logs().splitlines()) == ["worker:0 | hello from worker:0", "worker:1 | hello from worker:1"]
        own = run.metrics.query("metric == 'loss'")
        assert sorted(zip(own["task"], own["value"], strict=True)) == [
            (task, value) for task in ("worker:0", "worker:1") for value in (0.5, 1.0)
        ]
        assert repr(run) == "<Run program, succeeded, loss 0.5>"

    def test_some_jobs_and_a_name(self, cluster: dtf.Cluster) -> None:
        run = cluster.run(program, name="alone", jobs={"worker": 1})
        assert (len(run.result()), run.info.name) == (1, "alone")

    def test_those_that_nobody_has_named_are_numbered(self, cluster: dtf.Cluster) -> None:
        def trial(args: Any, ctx: Any) -> None:
            return None

        runs = [cluster.run(trial, jobs={"worker": 1}) for _ in range(2)]
        assert [run.info.name for run in runs] == ["trial", "trial 2"]

    def test_failed(self, cluster: dtf.Cluster) -> None:
        with pytest.raises(dtf.RunFailed, match="worker:1 failed: ValueError: no luck") as raised:
            cluster.run(program, "fail")
        assert raised.value.task == "worker:1"
        assert raised.value.traceback.startswith("Traceback (most recent call last):\n  File")
        assert 'raise ValueError("no luck")' in raised.value.traceback
        assert "jupyter_dtf/backend" not in raised.value.traceback

    def test_died(self, cluster: dtf.Cluster) -> None:
        with pytest.raises(dtf.RunFailed, match="SIGKILL") as raised:
            cluster.run(program, "die")
        assert raised.value.task == "worker:1"

    def test_stopped(self, cluster: dtf.Cluster) -> None:
        run = cluster.run(program, "wait", wait=False)
        with pytest.raises(TimeoutError):
            run.wait(0.05)
        run.stop()
        assert run.wait(left_s()).status == "stopped"
        run.stop()  # an ended run does not change
        with pytest.raises(dtf.RunStopped):
            run.result()

    def test_past_runs(self, cluster: dtf.Cluster) -> None:
        before = time.time()
        run = cluster.run(program)
        assert cluster.runs[0].id == dtf.runs()[0].id == run.id
        assert dtf.run(run.id).info.created >= before - 1
        with pytest.raises(dtf.NotFound):
            dtf.run("nope")

    def test_a_program_is_a_function(self, cluster: dtf.Cluster) -> None:
        with pytest.raises(dtf.InvalidInput, match="must be a function .*, got 3"):
            cluster.run(3)  # type: ignore[arg-type]


def test_importing_the_package_is_light(tmp_path: Path) -> None:
    code = (
        "import sys, jupyter_dtf; heavy = {'tensorflow', 'keras', 'distributed', 'dask', 'pandas', 'IPython'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=left_s(), check=False)
    assert found.stdout == "[]\n"
