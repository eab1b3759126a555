"""Tests of a cluster that is started from a design file, on two real hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.backend.kinds.local import local_host_name
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.design import ClusterDesign, ModelDesign
from jupyter_dtf.schema.graph import LayerGraph
from jupyter_dtf.schema.hosts import HostDesign, TaskPlace

pytestmark = pytest.mark.module_directories

DESIGN = dtf.Design(
    cluster=ClusterDesign(
        name="drawn",
        jobs={"worker": 3, "ps": 1},
        hosts=[HostDesign(name="node-a"), HostDesign(name="node-b")],
        tasks=[
            TaskPlace(job="worker", index=0, host="node-b"),
            TaskPlace(job="worker", index=2, host="node-b"),
            TaskPlace(job="ps", index=0, host="node-b"),
        ],
    ),
)
FIRST, SECOND = (local_host_name(number, 2) for number in range(2))
DRAWN = {"worker:0": SECOND, "worker:1": FIRST, "worker:2": SECOND, "ps:0": SECOND}
"""The task without a host in the design runs where there is room."""


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dtf.Cluster]:
    path = tmp_path_factory.mktemp("designs") / "drawn.dtf"
    DESIGN.save(path)
    with dtf.Cluster(design=path) as cluster:
        yield cluster
    session().close()


def worker_of(args: None, ctx: Any) -> str:
    return str(ctx.task)


def test_tasks_run_where_they_were_drawn(cluster: dtf.Cluster) -> None:
    run = cluster.run(worker_of)
    assert {task.task: task.host for task in run.info.tasks} == DRAWN
    assert run.design is not None
    assert dtf.Design.parse(run.design.text).cluster == DESIGN.cluster
    info = cluster.info
    assert (info.name, info.jobs) == ("drawn", {"worker": 3, "ps": 1})
    assert {location.task: location.host for location in info.tasks} == DRAWN
    assert {host.name: host.drawn for host in info.hosts} == {FIRST: "node-a", SECOND: "node-b"}
    assert [task.task for task in run.info.tasks] == [location.task for location in info.tasks]


def test_a_run_of_some_of_the_tasks_has_them_there_too(cluster: dtf.Cluster) -> None:
    run = cluster.run(worker_of, jobs={"worker": 2})
    assert {task.task: task.host for task in run.info.tasks} == {"worker:0": SECOND, "worker:1": FIRST}


def test_what_runs_is_saved_as_a_design(cluster: dtf.Cluster, tmp_path: Path) -> None:
    path = tmp_path / "now.dtf"
    model = ModelDesign(graph=LayerGraph(model="m", layers=[], edges=[]))
    dtf.Design(model=model).save(path)
    saved = cluster.save_design(path)
    assert saved == dtf.Design.open(path)
    assert saved.model == model
    assert (saved.cluster.name, saved.cluster.jobs) == ("drawn", DESIGN.cluster.jobs)
    assert [host.name for host in saved.cluster.hosts] == ["node-a", "node-b"]
    names = {FIRST: "node-a", SECOND: "node-b"}
    assert {place.task: place.host for place in saved.cluster.tasks} == {
        task: names[host] for task, host in DRAWN.items()
    }


def test_what_is_no_design_of_a_cluster(tmp_path: Path) -> None:
    with pytest.raises(dtf.NotFound, match="There is no design "):
        dtf.Cluster(design=tmp_path / "missing.dtf")
    with pytest.raises(dtf.InvalidInput, match="`design` must not be combined with jobs, backend") as refused:
        dtf.Cluster({"worker": 1}, design=DESIGN)
    assert refused.value.field == "design"
    with pytest.raises(dtf.InvalidInput, match=r"one of the design's hosts \(none\), got 'a'"):
        dtf.Cluster(design=dtf.Design(cluster=ClusterDesign(tasks=[TaskPlace(job="worker", index=0, host="a")])))


def test_a_device_that_is_not_there_is_named_before_anything_starts() -> None:
    host = HostDesign(name="big", gpus=[0] * 64)
    place = TaskPlace(job="worker", index=0, host="big", device="GPU:63")
    with pytest.raises(dtf.Unavailable, match="worker:0 was assigned to GPU:63 of host big, which has"):
        dtf.Cluster(design=dtf.Design(cluster=ClusterDesign(hosts=[host], tasks=[place])))
