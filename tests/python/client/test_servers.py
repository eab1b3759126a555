"""Tests of graphs placed manually on a real cluster's servers: sessions, eager code, several clients, containers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.servers import Servers
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import Note

from ..patience import left_s

pytestmark = pytest.mark.module_directories


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 2, "ps": 1}, name="bare") as shared:
        yield shared
    session().close()


@pytest.fixture(scope="module")
def servers(cluster: dtf.Cluster) -> Iterator[Servers]:
    with cluster.servers() as served:
        yield served


@pytest.fixture(scope="module")
def tf() -> Any:
    import tensorflow

    return tensorflow


def product_on_two_tasks(tf: Any) -> Any:
    """Return a graph whose two products are placed on two workers, its placeholder, and the tensor to fetch."""
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, (2, 2))
        with tf.device("/job:worker/task:0/cpu:0"):
            y = tf.matmul(x, x, name="first")
        with tf.device("/job:worker/task:1/cpu:0"):
            z = tf.matmul(y, x, name="second")
    return graph, x, z


def test_a_session_runs_a_graph_where_it_was_placed(servers: Servers, tf: Any) -> None:
    graph, x, z = product_on_two_tasks(tf)
    metadata = tf.compat.v1.RunMetadata()
    options = tf.compat.v1.RunOptions(output_partition_graphs=True)
    with tf.compat.v1.Session(servers.target, graph=graph) as client:
        value = client.run(z, {x: [[1, 1], [0, 1]]}, options=options, run_metadata=metadata)
    assert value.tolist() == [[1, 3], [0, 1]]
    where = {node.name: node.device for part in metadata.partition_graphs for node in part.node if "MatMul" in node.op}
    assert where == {
        "first": "/job:worker/replica:0/task:0/device:CPU:0",
        "second": "/job:worker/replica:0/task:1/device:CPU:0",
    }


def test_a_trace_is_one_call(servers: Servers, tf: Any) -> None:
    graph, x, z = product_on_two_tasks(tf)
    trace = servers.trace(z, {x: [[1, 1], [0, 1]]}, graph=graph)
    assert trace.values.tolist() == [[1, 3], [0, 1]]
    assert set(trace.table["op"]) >= {"first", "second"}


def test_where_they_are(servers: Servers) -> None:
    spec = servers.cluster_spec
    assert {job: list(tasks) for job, tasks in spec.jobs.items()} == {"worker": [0, 1], "ps": [0]}
    assert servers.target == servers.targets("worker")[0] == f"grpc://{spec.endpoint('worker', 0)}"
    assert servers.targets("ps") == [f"grpc://{spec.endpoint('ps', 0)}"]
    with pytest.raises(dtf.InvalidInput, match="`job` must be one of worker, ps, got 'chief'"):
        servers.targets("chief")


def counter(tf: Any, container: str) -> Any:
    """Return a graph with a variable on ``ps``, the variable, and the operation that increments it."""
    with (
        tf.Graph().as_default() as graph,
        tf.compat.v1.container(container),
        tf.device("/job:ps/task:0/cpu:0"),
    ):
        variable = tf.compat.v1.get_variable("count", initializer=0.0, use_resource=True)
        increment = variable.assign_add(1.0, read_value=True)
    return graph, variable, increment


def test_clients_share_what_has_one_container_and_one_name(servers: Servers, tf: Any) -> None:
    """Sessions at two targets share a variable. Other containers have their own, and a reset can leave them alone."""
    first, second = servers.targets("worker")
    assert first != second
    graph, variable, increment = counter(tf, "shared")
    with tf.compat.v1.Session(first, graph=graph) as one, tf.compat.v1.Session(second, graph=graph) as two:
        one.run(variable.initializer)
        one.run(increment)
        assert two.run(increment) == 2
        assert one.run(variable) == 2
    other_graph, other, _ = counter(tf, "")  # the default one
    with tf.compat.v1.Session(second, graph=other_graph) as client:
        with pytest.raises(tf.errors.FailedPreconditionError):
            client.run(other)
        client.run(other.initializer)

    servers.reset("shared")
    with tf.compat.v1.Session(first, graph=graph) as client, pytest.raises(tf.errors.FailedPreconditionError):
        client.run(variable)
    with tf.compat.v1.Session(first, graph=other_graph) as client:
        assert client.run(other) == 0

    servers.reset()
    with tf.compat.v1.Session(first, graph=other_graph) as client, pytest.raises(tf.errors.FailedPreconditionError):
        client.run(other)


ANOTHER_CLIENT = """
import sys
import tensorflow as tf

graph = tf.Graph()
with graph.as_default(), tf.device("/job:ps/task:0"):
    value = tf.compat.v1.get_variable("number", shape=(), use_resource=True)
with tf.compat.v1.Session(sys.argv[1], graph=graph) as client:
    print(client.run(value))
"""


def test_another_process_is_a_client_too(servers: Servers, tf: Any) -> None:
    with tf.Graph().as_default() as graph, tf.device("/job:ps/task:0"):
        number = tf.compat.v1.get_variable("number", initializer=42.0, use_resource=True)
    with tf.compat.v1.Session(servers.target, graph=graph) as client:
        client.run(number.initializer)
        command = [sys.executable, "-c", ANOTHER_CLIENT, servers.targets("worker")[1]]
        found = subprocess.run(command, capture_output=True, text=True, timeout=left_s(), check=False)
    assert found.stdout == "42.0\n", found.stderr


def test_eager_code_connects_more_than_once_and_what_is_local_stays(cluster: dtf.Cluster, tf: Any) -> None:
    local = tf.Variable(1.0)
    for _ in range(2):
        with cluster.servers({"worker": 2}) as servers:
            devices = servers.connect()
            assert devices == [f"/job:worker/replica:0/task:{index}/device:CPU:0" for index in (0, 1)]
            assert servers.connect() == devices

            with tf.device("/job:worker/task:1"):
                there = tf.Variable(3.0)
            assert there.device == devices[1]

            @tf.function
            def across(x: Any, there: Any = there) -> Any:
                with tf.device("/job:worker/task:0/cpu:0"):
                    y = x * 2.0
                with tf.device("/job:worker/task:1/cpu:0"):
                    return y + there

            assert across(tf.constant(5.0)) == 13.0
            local.assign_add(1.0)
        assert not [device for device in tf.config.list_logical_devices() if "worker" in device.name]
    assert local == 3.0


def test_sessions_that_were_forgotten_are_closed_with_their_servers(cluster: dtf.Cluster, tf: Any) -> None:
    graph, x, z = product_on_two_tasks(tf)
    local = tf.compat.v1.Session(graph=tf.Graph())
    with cluster.servers({"worker": 2}) as servers:
        forgotten = tf.compat.v1.Session(servers.targets("worker")[1], graph=graph)
        forgotten.run(z, {x: [[1, 1], [0, 1]]})
    with pytest.raises(RuntimeError, match="closed"):
        forgotten.run(z, {x: [[1, 1], [0, 1]]})
    forgotten.close()  # would hang if the session were still open
    with local.graph.as_default():
        assert local.run(tf.constant(1)) == 1
    local.close()


def test_a_process_is_freed_of_servers_that_somebody_else_has_ended(cluster: dtf.Cluster, tf: Any) -> None:
    servers = cluster.servers({"worker": 1})
    servers.connect()
    servers.run.stop(now=True)
    servers.run.wait()
    servers.disconnect()

    @tf.function
    def double(x: Any) -> Any:
        return 2.0 * x

    assert double(tf.constant(2.0)) == 4.0  # would hang if it still used the ended servers
    assert "TF_GRPC_REUSE_PORT" not in os.environ


def test_they_are_a_run_that_others_can_stop(cluster: dtf.Cluster) -> None:
    with cluster.servers({"worker": 1}, wait=False) as servers:
        assert servers.target.startswith("grpc://")  # waits for the servers
        info = servers.run.info
        assert (info.name, info.kind, info.state.value) == ("servers", "servers", "running")
        notes = [event for _, event in session().hub.events(info.id) if isinstance(event, Note)]
        assert [note.title for note in notes if note.level == "warning"] == []
        dtf.run(info.id).stop()
        servers.run.wait()
        with pytest.raises(dtf.RunStopped):
            _ = servers.target
    assert servers.run.status == "stopped"
    assert [task.state.value for task in servers.run.info.tasks] == ["succeeded"]
