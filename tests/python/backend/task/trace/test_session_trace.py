"""Tests of traced steps of a session over two real TensorFlow servers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from jupyter_dtf.schema.trace import TraceData

from ..gang import FakeContext, optimize_graphs, run_gang

DEVICES = [f"/job:worker/task:{task}/device:CPU:0" for task in (0, 1)]
SIDE = 100


def powers(ctx: FakeContext) -> dict[str, Any] | None:
    """Trace matrix products on two servers: of constants, of a fed matrix, and with a variable, a bias and a ReLU."""
    import contextlib
    import json
    import os

    import numpy as np
    import tensorflow as tf

    from jupyter_dtf.client.run_trace import trace_session

    optimize_graphs(True)
    v1 = tf.compat.v1
    cluster = tf.train.ClusterSpec(json.loads(os.environ["TF_CONFIG"])["cluster"])
    server = tf.distribute.Server(cluster, job_name="worker", task_index=ctx.rank)
    done = ctx.shared_dir / "done"
    with contextlib.suppress(FileExistsError):
        os.mkfifo(done)
    if ctx.rank:
        done.read_bytes()  # serves until the client has finished
        return None

    eye = np.eye(SIDE, dtype=np.float32)
    graph = tf.Graph()
    with graph.as_default():
        fed = v1.placeholder(tf.float32, [SIDE, SIDE], name="fed")
        results = {}
        for kind, source in (("constant", tf.constant(eye)), ("fed", fed)):
            with tf.device("/job:worker/task:0"):
                first = tf.matmul(source, source, name=f"{kind}_first")
            with tf.device("/job:worker/task:1"):
                second = tf.matmul(source, source, name=f"{kind}_second")
                results[kind] = tf.reduce_sum(tf.matmul(first, second, name=f"{kind}_product"), name=f"{kind}_sum")
        with tf.device("/job:worker/task:1"):
            weights = v1.get_variable("weights", [SIDE, SIDE], initializer=v1.zeros_initializer(), use_resource=True)
            dense = tf.nn.bias_add(tf.matmul(fed, weights, name="product"), tf.ones([SIDE]), name="bias")
            results["dense"] = tf.nn.relu(dense, name="relu")
        with v1.Session(server.target) as session:
            session.run(v1.global_variables_initializer())
    traces = {}
    for kind, fetches in (("constant", results["constant"]), ("fed", results["fed"]), ("dense", [results["dense"]])):
        trace = trace_session(server.target, fetches, {fed: eye}, graph=graph, steps=2)
        trace.save(ctx.run_dir / "chrome.json")
        traces[kind] = {
            "trace": msgspec.json.encode(trace.data),
            "value": float(np.sum(trace.values)),
            "table": list(trace.table.columns),
            "transferred": list(trace.transfers.columns),
            "shown": trace._repr_mimebundle_(),
            "chrome": json.loads((ctx.run_dir / "chrome.json").read_text()),
        }
    done.write_bytes(b"")
    return traces


@pytest.fixture(scope="module")
def traces(no_process_left_by_module: None) -> dict[str, Any]:
    found: dict[str, Any] = run_gang(2, powers)[0]
    return found


def data(traces: dict[str, Any], kind: str) -> TraceData:
    return msgspec.json.decode(traces[kind]["trace"], type=TraceData)


def test_what_is_fed_runs_where_it_was_placed(traces: dict[str, Any]) -> None:
    trace = data(traces, "fed")
    ran = {(op.step, op.op): op.device for op in trace.ops if op.op_type.endswith("MatMul")}
    assert ran == {
        (step, name): DEVICES[task]
        for step in (1, 2)
        for name, task in (("fed_first", 0), ("fed_second", 1), ("fed_product", 1))
    }
    assert trace.warnings == []
    assert traces["fed"]["value"] == SIDE


def test_transfers_have_bytes_and_begin_when_the_sender_is_ready(traces: dict[str, Any]) -> None:
    trace = data(traces, "fed")
    sent = [one for one in trace.transfers if one.tensor == "fed_first"]
    assert [one.step for one in sent] == [1, 2]
    for one in sent:
        assert (one.source, one.target, one.bytes) == (*DEVICES, 4 * SIDE * SIDE)
        (made,) = [op for op in trace.ops if (op.op, op.step) == ("fed_first", one.step)]
        (used,) = [op for op in trace.ops if (op.op, op.step) == ("fed_product", one.step)]
        assert made.start_us + made.duration_us <= one.start_us <= one.start_us + one.duration_us
        assert one.start_us <= used.start_us


def test_a_power_of_constants_runs_nowhere_and_is_named(traces: dict[str, Any]) -> None:
    trace = data(traces, "constant")
    assert not [op for op in trace.ops if op.op_type.endswith("MatMul")]
    assert traces["constant"]["value"] == SIDE
    named = {warning.partition(" ")[0] for warning in trace.warnings}
    assert {"constant_first", "constant_second", "constant_product"} <= named
    assert all("constants alone" in warning for warning in trace.warnings)


def test_what_is_fused_is_named(traces: dict[str, Any]) -> None:
    trace = data(traces, "dense")
    (first, second) = trace.warnings
    assert first.startswith("product (MatMul), placed on /job:worker/task:1, ran as a part of relu (_")
    assert second.startswith("bias (BiasAdd)")
    assert "Fused" in next(op.op_type for op in trace.ops if op.op == "relu")


def test_times_follow_one_another(traces: dict[str, Any]) -> None:
    trace = data(traces, "fed")
    assert trace.ops[0].start_us >= 0
    assert [op.start_us for op in trace.ops] == sorted(op.start_us for op in trace.ops)
    ends = {step: max(op.start_us + op.duration_us for op in trace.ops if op.step == step) for step in (1, 2)}
    assert min(op.start_us for op in trace.ops if op.step == 2) > ends[1]


def test_tables(traces: dict[str, Any]) -> None:
    assert traces["fed"]["table"] == ["step", "op", "op_type", "task", "device", "start_us", "duration_us"]
    assert traces["fed"]["transferred"] == [
        "step",
        "tensor",
        "source",
        "target",
        "bytes",
        "start_us",
        "duration_us",
    ]


def test_shown_in_a_notebook(traces: dict[str, Any]) -> None:
    shown = traces["constant"]["shown"]
    assert shown["image/svg+xml"].startswith("<svg ")
    assert shown["image/svg+xml"] in shown["text/html"]
    assert "constant_first (MatMul)" in shown["text/plain"]


def test_saved_for_chrome(traces: dict[str, Any]) -> None:
    events = traces["fed"]["chrome"]["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"worker:0", "worker:1"}
    assert json.dumps(traces["fed"]["chrome"])
    assert [event["ph"] for event in events].count("s") == len(data(traces, "fed").transfers)
