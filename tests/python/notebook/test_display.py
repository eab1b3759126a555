from __future__ import annotations

import threading
from typing import Any

import pytest

from jupyter_dtf.client import display_hooks
from jupyter_dtf.errors import NotFound
from jupyter_dtf.notebook import display
from jupyter_dtf.notebook.display import CLUSTER_MIME, RUN_CARD_MIME, RUN_MIME, Shown, cluster_bundle, sparkline
from jupyter_dtf.notebook.shown_here import Notebook
from jupyter_dtf.schema.api import ClusterInfo, ClusterState
from jupyter_dtf.schema.machines import HostInfo
from jupyter_dtf.schema.run import RunState

from ..client.fake_run import FakeRun
from ..patience import left_s


class Output:
    """An output of a notebook. A frontend would show the last of its bundles."""

    def __init__(self) -> None:
        self.bundles: list[dict[str, Any]] = []
        self.updated = threading.Event()

    def display(self, bundle: dict[str, Any], *, raw: bool, display_id: bool) -> Output:
        assert raw
        assert display_id
        self.bundles.append(bundle)
        return self

    def update(self, bundle: dict[str, Any], *, raw: bool) -> None:
        self.bundles.append(bundle)
        self.updated.set()


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch) -> Output:
    shown = Output()
    monkeypatch.setattr("IPython.display.display", shown.display)
    monkeypatch.setattr(display_hooks, "find", Notebook)
    return shown


class TestShow:
    def test_bundle(self, output: Output) -> None:
        fake = FakeRun()
        fake.start()
        fake.run.show()
        (bundle,) = output.bundles
        assert bundle[RUN_MIME] == {"run": "run-1"}
        assert bundle["image/svg+xml"].startswith("<svg")
        assert bundle["text/plain"] == "<Run mlp, running>"

    def test_the_picture_becomes_the_final_one_by_itself(self, output: Output) -> None:
        fake = FakeRun()
        fake.start()
        fake.run.show()
        fake.points("worker:0", "loss", [3, 2, 1])
        assert len(output.bundles) == 1
        fake.end()
        assert output.updated.wait(left_s())
        assert "loss" in output.bundles[-1]["image/svg+xml"]
        assert "succeeded" in output.bundles[-1]["text/plain"]

    def test_it_is_drawn_once_however_often_it_is_finished(self, output: Output) -> None:
        fake = FakeRun()
        fake.start()
        shown = Shown(fake.run)
        shown.finish()  # it has not ended
        assert len(output.bundles) == 1
        fake.end()
        for _ in range(3):
            shown.finish()
        assert len(output.bundles) == 2


class TestRunCard:
    def test_bundle(self) -> None:
        fake = FakeRun()
        fake.start()
        fake.progress(10, 100, epoch=1, epochs=5)
        fake.points("worker:0", "loss", [3, 2, 1])
        bundle = fake.run._repr_mimebundle_()
        assert bundle[RUN_CARD_MIME] == {"run": "run-1"}
        for text in ("mlp", "running", "2 workers", "epoch 1/5", "loss 1", "<polyline"):
            assert text in bundle["text/html"]

    def test_a_failed_run_says_why(self) -> None:
        fake = FakeRun()
        fake.start()
        fake.end(RunState.FAILED, "worker:1 died (SIGKILL)")
        assert "worker:1 died (SIGKILL)" in fake.run._repr_mimebundle_()["text/html"]

    def test_what_people_wrote_is_never_markup(self) -> None:
        fake = FakeRun(name="<img src=x onerror=alert(1)>")
        fake.start()
        fake.end(RunState.FAILED, "<script>alert(2)</script>")
        card = fake.run._repr_mimebundle_()["text/html"]
        assert "<img" not in card
        assert "<script" not in card


class StubCluster:
    name = "here"

    def __init__(self, info: ClusterInfo | None) -> None:
        self._info = info

    @property
    def info(self) -> ClusterInfo:
        if self._info is None:
            raise NotFound("gone")
        return self._info


class TestClusterCard:
    def test_bundle(self) -> None:
        hosts = [HostInfo(name="0", address="tls://a", threads=4, memory_bytes=2**32)]
        info = ClusterInfo(
            name="here",
            kind="local",
            state=ClusterState.RUNNING,
            jobs={"worker": 2},
            hosts=hosts,
            active_runs=1,
            notes=["2 tasks share <1> core"],
        )
        bundle = cluster_bundle(StubCluster(info))  # type: ignore[arg-type]
        assert bundle[CLUSTER_MIME] == {"name": "here"}
        for text in ("running", "local", "2 workers", "4 cores", "4.0 GiB", "1 run under way", "share &lt;1&gt; core"):
            assert text in bundle["text/html"]

    def test_one_that_is_gone(self) -> None:
        bundle = cluster_bundle(StubCluster(None))  # type: ignore[arg-type]
        assert "stopped" in bundle["text/html"]


def test_sparkline_falls_where_values_fall() -> None:
    points = sparkline([3, 2, 1], width=102, height=12).split('points="')[1].split('"')[0]
    assert points == "1.0,1.0 51.0,6.0 101.0,11.0"
    assert sparkline([1]) == ""


def test_mime_types_are_what_the_extension_knows() -> None:
    assert (display.RUN_MIME, display.CLUSTER_MIME) == (
        "application/vnd.jupyter-dtf.run+json",
        "application/vnd.jupyter-dtf.cluster+json",
    )
