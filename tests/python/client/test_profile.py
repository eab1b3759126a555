"""Tests of profiling runs while they are running."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import keras
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf import cli
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import Note, Profiled, TracedSteps

from ..patience import left_s

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = load_digits(return_X_y=True)
X, Y = X[:300].astype("float32") / 16, Y[:300]
WORKERS = {"worker": 2}
PLACES = {"dense": "/job:worker/task:0/device:CPU:0", "out": "/job:worker/task:1/device:CPU:0"}


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"ps": 1, "worker": 2}) as made:
        yield made
    session().close()


class Slowly(keras.callbacks.Callback):
    """A callback that slows down training, so that there is time for profiling."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        threading.Event().wait(0.005)


def begin(cluster: dtf.Cluster, **arguments: Any) -> Any:
    layers = [keras.Input((64,)), keras.layers.Dense(16, activation="relu", name="dense")]
    model = keras.Sequential([*layers, keras.layers.Dense(10, name="out")])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    given = {"batch_size": 30, "epochs": 100_000, "wait": False, "callbacks": [Slowly()], **arguments}
    run = cluster.fit(model, X, Y, **given)
    run.wait_for(
        lambda info: info.state.is_final or (info.state.value == "running" and info.progress.done >= 5), left_s()
    )
    return run


def under_way(run: Any) -> None:
    """Wait until a program has made some steps."""
    run.wait_for(lambda info: info.state.value == "running" and info.latest.get("done", 0) >= 5, left_s())


def end(run: Any) -> None:
    assert run.status == "running"
    run.stop()
    run.wait(left_s())
    assert run.status == "stopped"


def steps_of(trace: Any) -> dict[str, set[int]]:
    """Return the steps that each task has traced."""
    return {str(task): set(rows["step"]) for task, rows in trace.table.groupby("task")}


def test_a_training_is_profiled_twice_and_its_tasks_trace_the_same_steps(cluster: dtf.Cluster) -> None:
    run = begin(cluster, jobs=WORKERS)
    first = run.profile(steps=2, timeout_s=left_s())
    steps = steps_of(first)
    assert steps["worker:0"] == steps["worker:1"] and len(steps["worker:0"]) == 2
    assert first.table["op_type"].str.contains("MatMul").any()
    assert run.info.profile.number == 1 and run.info.profile.done
    assert cli.main(["profile", run.id, "--steps", "3", "-o", str(Path(run.info.run_dir) / "chrome.json")]) == 0
    second = steps_of(run.timeline())  # replaces the first
    assert second["worker:0"] == second["worker:1"] and len(second["worker:0"]) == 3
    assert min(second["worker:0"]) > max(steps["worker:0"])
    assert (Path(run.info.run_dir) / "chrome.json").stat().st_size > 1000
    titles = [event.title for _, event in session().hub.events(run.id) if isinstance(event, Note)]
    assert [title for title in titles if "traced" in title] == [
        f"Steps {min(each)} to {max(each)} were traced" for each in (steps["worker:0"], second["worker:0"])
    ]
    end(run)
    told = run.metrics.query("metric == 'loss' and task == 'worker:1'")["step"]
    assert list(told) == list(range(1, len(told) + 1)) and max(second["worker:1"]) <= len(told)
    with pytest.raises(dtf.Conflict, match=f"A run must be running to be profiled, but {run.id} is stopped"):
        run.profile()


def test_a_training_that_was_profiled_goes_on_in_its_processes_and_is_profiled_again(cluster: dtf.Cluster) -> None:
    run = begin(cluster, jobs=WORKERS)
    before = steps_of(run.profile(steps=1, timeout_s=left_s()))
    kept, lost = (task.pid for task in run.info.tasks)
    os.kill(lost, signal.SIGKILL)
    run.wait_for(lambda info: info.tasks[1].attempt == 1 and info.state.value == "running", left_s())
    after = steps_of(run.profile(steps=2, timeout_s=left_s()))
    assert run.info.tasks[0].pid == kept
    assert after["worker:0"] == after["worker:1"] and min(after["worker:0"]) > max(before["worker:0"])
    end(run)


@pytest.mark.parametrize(
    ("strategy", "jobs", "tasks"),
    [
        ("ps", {"worker": 2, "ps": 1}, {"worker:0", "worker:1", "ps:0"}),
        (dtf.Pipeline(PLACES), WORKERS, {"worker:0", "worker:1"}),
        ("mirrored", WORKERS, {"worker:0", "worker:1"}),
    ],
)
def test_every_task_that_computes_is_in_the_trace(
    cluster: dtf.Cluster, strategy: Any, jobs: dict[str, int], tasks: set[str]
) -> None:
    run = begin(cluster, strategy=strategy, jobs=jobs)
    for _ in range(2):
        steps = steps_of(run.profile(steps=2, timeout_s=left_s()))
        assert steps.keys() == tasks
        assert {len(each) for each in steps.values()} == {2}
    end(run)


def program(marks: bool, ctx: Any) -> int:
    """Make steps until the run is stopped. Unless ``marks`` is set, they cannot be recognized by the tracer."""
    import tensorflow as tf

    double = tf.function(lambda x: x @ x)
    step = 0
    while not ctx.should_stop:
        step += 1
        if marks:
            with ctx.traced(step):
                double(tf.ones((50, 50)))
        ctx.report(step=step, done=step)
        threading.Event().wait(0.005)
    return step


def test_a_program_that_marks_its_steps_is_profiled(cluster: dtf.Cluster) -> None:
    run = cluster.run(program, True, jobs=WORKERS, wait=False)
    under_way(run)
    assert run.profile(steps=2, wait=False) is None
    with pytest.raises(dtf.Conflict, match="is already being profiled"):
        run.profile(steps=2)
    run.wait_for(lambda info: info.profile is not None and info.profile.done, left_s())
    steps = steps_of(run.timeline())
    assert {task: len(each) for task, each in steps.items()} == {"worker:0": 2, "worker:1": 2}
    with pytest.raises(dtf.InvalidInput, match="`steps` must be an integer from 1 to 100, got 0"):
        run.profile(steps=0)
    end(run)


def test_a_program_that_marks_no_steps_is_told_how(cluster: dtf.Cluster) -> None:
    run = cluster.run(program, False, jobs=WORKERS, wait=False)
    under_way(run)
    with pytest.raises(TimeoutError, match=r"within 0\.2 s: a program that is profiled must mark its steps"):
        run.profile(timeout_s=0.2)
    end(run)
    assert (
        run.info.profile is not None
        and run.info.profile.message == "The run has ended, so the requested steps could not be traced"
    )


def sessions(args: Any, ctx: Any) -> int:
    import tensorflow as tf

    v1 = tf.compat.v1
    calls = 0
    with v1.Graph().as_default(), v1.Session() as running:
        x = v1.placeholder(tf.float32, [None, 8])
        product = tf.matmul(x, x, transpose_b=True, name="product")
        while not ctx.should_stop:
            running.run(product, {x: [[1.0] * 8] * 8})
            calls += 1
            ctx.report(step=calls, done=calls)
            threading.Event().wait(0.005)
    return calls


def test_the_calls_of_sessions_are_the_steps_where_none_are_marked(cluster: dtf.Cluster) -> None:
    run = cluster.run(sessions, jobs=WORKERS, wait=False)
    under_way(run)
    for _ in range(2):
        table = run.profile(steps=2, timeout_s=left_s()).table
        assert {task: len(rows) for task, rows in table[table["op"] == "product"].groupby("task")} == {
            "worker:0": 2,
            "worker:1": 2,
        }
    end(run)
    told = [event for _, event in session().hub.events(run.id) if isinstance(event, (Profiled, TracedSteps))]
    assert [event.done for event in told if isinstance(event, Profiled)] == [False, True, False, True]
