"""Tests of the traces that show what ran where, on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import Note

pytestmark = pytest.mark.module_directories

COLUMNS = ["step", "op", "op_type", "task", "device", "start_us", "duration_us"]


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"ps": 1, "worker": 2}) as made:
        yield made
    session().close()


def cpu(task: str) -> str:
    return "/job:{}/task:{}/device:CPU:0".format(*task.split(":"))


@pytest.mark.parametrize(
    ("strategy", "jobs", "tasks"),
    [
        ("allreduce", {"worker": 2}, {"worker:0", "worker:1"}),
        ("ps", {"worker": 2, "ps": 1}, {"worker:0", "worker:1", "ps:0"}),
        ("mirrored", {"worker": 2}, {"worker:0", "worker:1"}),
    ],
)
def test_a_training_is_traced_under_every_strategy(
    cluster: dtf.Cluster, strategy: str, jobs: dict[str, int], tasks: set[str]
) -> None:
    x, y = load_digits(return_X_y=True)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    run = cluster.fit(model, x[:640], y[:640], batch_size=64, strategy=strategy, jobs=jobs, trace_steps=(4, 5))
    placement = run.placement()
    assert list(placement.columns) == COLUMNS
    assert set(placement["step"]) == {4, 5}
    assert set(placement["device"]) == {cpu(task) for task in tasks}
    assert set(placement["task"]) == tasks
    products = placement[placement["op_type"].str.contains("MatMul")]
    assert set(products["task"]) == {"worker:0", "worker:1"}  # forward and backward where the replicas are
    assert (placement["duration_us"] >= 0).all() and placement["start_us"].is_monotonic_increasing
    notes = [event.title for _, event in session().hub.events(run.id) if isinstance(event, Note)]
    assert notes.count("Steps 4 to 5 were traced") == 1


def between_graph(marks: bool, ctx: Any) -> None:
    from contextlib import nullcontext

    import numpy as np
    import tensorflow as tf

    if ctx.job_name == "ps":
        ctx.server.join()
        return
    v1 = tf.compat.v1
    with v1.Graph().as_default():
        worker = f"/job:worker/task:{ctx.task_index}"
        with v1.device(v1.train.replica_device_setter(cluster=ctx.cluster_spec.as_tf(), worker_device=worker)):
            x = v1.placeholder(tf.float32, [None, 64])
            weights = v1.get_variable("weights", [64, 10], use_resource=True)
            step = v1.train.get_or_create_global_step()
            loss = tf.reduce_mean(tf.square(tf.matmul(x, weights, name="product")))
            train = v1.train.GradientDescentOptimizer(0.01).minimize(loss, global_step=step)
        with v1.train.MonitoredTrainingSession(ctx.server.target, is_chief=ctx.is_chief) as training:
            for number in range(1, 9):
                with ctx.traced(number) if marks else nullcontext():
                    training.run(train, {x: np.ones((32, 64))})


@pytest.mark.parametrize("marks", [False, True])
def test_a_program_with_a_client_per_task(cluster: dtf.Cluster, marks: bool) -> None:
    run = cluster.run(between_graph, marks, trace_steps=(5, 8))
    trace = run.timeline()
    products = trace.table[trace.table["op"] == "product"]
    assert set(products["device"]) == {cpu("worker:0"), cpu("worker:1")}
    assert cpu("ps:0") in set(trace.table["device"])
    fetched = trace.transfers[trace.transfers["source"] == cpu("ps:0")]
    assert 4 * 64 * 10 in set(fetched["bytes"])
    assert set(fetched["target"]) <= {cpu("worker:0"), cpu("worker:1")}


def test_a_run_without_a_trace_says_how_to_ask_for_one(cluster: dtf.Cluster) -> None:
    def nothing(args: Any, ctx: Any) -> bool:
        with ctx.traced(1):
            return ctx.tracer.recorder is None

    run = cluster.run(nothing)
    assert run.result() == [True, True, True]
    with pytest.raises(dtf.NotFound, match=r"trace_steps=\(10, 12\)"):
        run.placement()


def test_bad_steps_are_refused_before_anything_starts(cluster: dtf.Cluster) -> None:
    with pytest.raises(dtf.InvalidInput, match=r"got \(3, 1\)"):
        cluster.run(between_graph, False, trace_steps=(3, 1))


def test_a_session_on_a_clusters_servers(cluster: dtf.Cluster) -> None:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, (20, 20))
        with tf.device("/job:worker/task:1"):
            total = tf.reduce_sum(tf.matmul(x, x, name="square"))
    with cluster.servers({"worker": 2}) as servers:
        trace = servers.trace(total, {x: [[1.0] * 20] * 20}, graph=graph)
    assert trace.values == 8000
    assert set(trace.table[trace.table["op"] == "square"]["device"]) == {cpu("worker:1")}
