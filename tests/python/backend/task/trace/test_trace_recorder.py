"""Tests of recording steps of programs in their tasks."""

from __future__ import annotations

from typing import Any

from jupyter_dtf.backend.records.trace_files import read_traces
from jupyter_dtf.schema.trace import TraceData

from ..gang import FakeContext, optimize_graphs, run_gang


def recorder_of(ctx: FakeContext) -> Any:
    """Return a tracer that records steps 3 and 4."""
    from jupyter_dtf.backend.task.trace import start
    from jupyter_dtf.schema.launch import TaskSpec

    spec = TaskSpec(
        run_id="run",
        cluster="here",
        job_name="worker",
        task_index=ctx.rank,
        cluster_spec={},
        rank=ctx.rank,
        size=ctx.size,
        local_rank=ctx.rank,
        local_size=ctx.size,
        machines=ctx.machines,
        threads=1,
        run_dir=str(ctx.run_dir),
        stop_grace_s=1,
        trace_steps=[3, 4],
    )
    return start(spec, lambda: ctx.note("info", "traced"))


def all_kinds(ctx: FakeContext) -> TraceData:
    """Trace steps that each contain an eager operation, a call to a function, and a step of a session."""
    import tensorflow as tf

    optimize_graphs(True)
    recorder = recorder_of(ctx)

    @tf.function
    def relu_of_square(x: tf.Tensor) -> tf.Tensor:
        with tf.device("/device:CPU:0"):
            product = tf.matmul(x, x, name="square")
            folded = tf.matmul(tf.ones([9, 9]), tf.ones([9, 9]), name="folded")
        return tf.nn.relu(product, name="relu") + tf.reduce_sum(folded)

    x = tf.random.normal([50, 50])
    graph = tf.Graph()
    with graph.as_default():
        fed = tf.compat.v1.placeholder(tf.float32, [9], name="fed")
        softmax = tf.nn.softmax(fed, name="softmax")
    session = tf.compat.v1.Session(graph=graph)
    session.run(softmax, {fed: range(9)})
    for step in range(1, 7):
        with recorder.step(step):
            tf.linalg.trace(relu_of_square(x))
            session.run(softmax, {fed: range(9)})
        assert bool(ctx.notes) == (step >= 4)
    session.close()
    assert ctx.notes == [("info", "traced", "")]
    return read_traces(ctx.run_dir)


def test_functions_eager_operations_and_sessions() -> None:
    (trace,) = run_gang(1, all_kinds)
    device = "/job:worker/task:0/device:CPU:0"
    assert {op.device for op in trace.ops} == {device}
    assert {op.step for op in trace.ops} == {3, 4}
    for step in (3, 4):
        names = [op.op for op in trace.ops if op.step == step]
        for name in ("square", "relu", "softmax", "MatrixDiagPartV3"):
            assert names.count(name) == 1, names
        assert "folded" not in names
    (warning,) = trace.warnings
    assert warning.startswith(f"folded (MatMul), placed on {device}, did not run: its value depends on constants alone")


def counted(ctx: FakeContext) -> TraceData:
    """Trace a program that marks no steps, so that its calls to ``Session.run`` are counted."""
    import tensorflow as tf

    recorder_of(ctx)
    graph = tf.Graph()
    with graph.as_default():
        fed = tf.compat.v1.placeholder(tf.float32, [], name="fed")
        plus = tf.add(fed, 1.0, name="plus")
    session = tf.compat.v1.Session(graph=graph)
    metadata = tf.compat.v1.RunMetadata()
    for _ in range(3):
        session.run(plus, {fed: 1.0}, run_metadata=metadata)
    assert not ctx.notes
    assert [session.run(plus, {fed: float(value)}) for value in range(3)] == [1.0, 2.0, 3.0]
    assert ctx.notes == [("info", "traced", "")]
    return read_traces(ctx.run_dir)


def test_calls_of_run_are_counted_where_no_step_is_marked() -> None:
    (trace,) = run_gang(1, counted)
    assert [(op.step, op.op) for op in trace.ops if op.op == "plus"] == [(3, "plus"), (4, "plus")]


def ends_early(ctx: FakeContext) -> TraceData:
    import atexit

    import tensorflow as tf

    recorder = recorder_of(ctx)
    for step in range(1, 4):
        with recorder.step(step):
            tf.linalg.trace(tf.ones([5, 5]))
    atexit._run_exitfuncs()  # as at the end of a task
    assert ctx.notes == [("info", "traced", "")]
    return read_traces(ctx.run_dir)


def test_a_program_that_ends_before_the_last_step_leaves_what_there_is() -> None:
    (trace,) = run_gang(1, ends_early)
    assert {op.step for op in trace.ops} == {3}


def client(ctx: FakeContext) -> TraceData | None:
    """Trace the first task as a client of the others, which only serve. The third one has no recorder."""
    import contextlib
    import json
    import os

    import tensorflow as tf

    done = [ctx.shared_dir / f"done-{rank}" for rank in range(ctx.size)]
    for path in done:
        with contextlib.suppress(FileExistsError):
            os.mkfifo(path)
    recorder = recorder_of(ctx) if ctx.rank < 2 else None
    cluster = tf.train.ClusterSpec(json.loads(os.environ["TF_CONFIG"])["cluster"])
    if ctx.rank:
        server = tf.distribute.Server(cluster, job_name="worker", task_index=ctx.rank)
        done[ctx.rank].read_bytes()  # serves until the client has ended
        del server
        return None
    tf.config.experimental_connect_to_cluster(cluster, job_name="worker", task_index=0)

    @tf.function
    def across(x: tf.Tensor) -> tf.Tensor:
        with tf.device("/job:worker/task:0/device:CPU:0"):
            here = tf.matmul(x, x, name="here")
        with tf.device("/job:worker/task:1/device:CPU:0"):
            there = tf.matmul(here, x, name="there")
        with tf.device("/job:worker/task:2/device:CPU:0"):
            return tf.reduce_sum(tf.matmul(there, x, name="unseen"), name="sum")

    assert recorder is not None
    x = tf.random.normal([50, 50])
    for step in range(1, 6):
        with recorder.step(step):
            across(x).numpy()
    for path in done[1:]:
        path.write_bytes(b"")
    return read_traces(ctx.run_dir)


def test_what_a_clients_functions_run_on_other_tasks_is_recorded_there() -> None:
    trace, _, _ = run_gang(3, client)
    ran = {(op.step, op.op, op.device) for op in trace.ops if op.op_type.endswith("MatMul")}
    assert ran == {
        (step, name, f"/job:worker/task:{task}/device:CPU:0")
        for step in (3, 4)
        for name, task in (("here", 0), ("there", 1))
    }
    assert trace.warnings == []


def trained(ctx: FakeContext) -> TraceData:
    """Trace Keras's own ``fit`` over two epochs of three steps."""
    import keras
    from sklearn.datasets import load_digits

    from jupyter_dtf.backend.task.trace.callback import trace_callbacks

    assert trace_callbacks(None) == []
    x, y = load_digits(return_X_y=True)
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dense(10, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(x[:96], y[:96], batch_size=32, epochs=2, verbose=0, callbacks=trace_callbacks(recorder_of(ctx)))
    return read_traces(ctx.run_dir)


def test_the_steps_of_fit_count_over_all_epochs() -> None:
    (trace,) = run_gang(1, trained)
    assert {op.step for op in trace.ops} == {3, 4}
    updates = [op.step for op in trace.ops if op.op_type in ("AssignSubVariableOp", "AssignVariableOp")]
    assert updates.count(3) == updates.count(4) >= 2
