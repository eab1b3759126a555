"""Tests of programs with one graph per task, as they were written before TensorFlow 2, on a real cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import TaskChanged

from ...patience import left_s, until

pytestmark = pytest.mark.module_directories


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 2, "ps": 1}, name="graphs") as shared:
        yield shared
    session().close()


def task_states(run: dtf.Run, task: str) -> list[str]:
    events = [event for _, event in session().hub.events(run.id)]
    return [event.state.value for event in events if isinstance(event, TaskChanged) and event.task == task]


def placed(ctx: Any) -> Any:
    """Return a device setter that places variables on ``ps``, and all other operations on this worker."""
    import tensorflow.compat.v1 as tf

    here = f"/job:worker/task:{ctx.task_index}"
    return tf.train.replica_device_setter(worker_device=here, cluster=ctx.cluster_spec.as_tf())


def counting(ctx: Any) -> Any:
    """Build a graph that adds 1 to a variable on ``ps`` and to the global step. Return (variable, operation, step)."""
    import tensorflow.compat.v1 as tf

    with tf.device(placed(ctx)):
        step = tf.train.get_or_create_global_step()
        x = tf.get_variable("x", initializer=0.0)
        train = tf.train.GradientDescentOptimizer(1.0).minimize(-x, step)
    return x, train, step


def monitored(args: Any, ctx: Any) -> Any:
    import tensorflow.compat.v1 as tf

    if ctx.job_name == "ps":
        ctx.server.join()
        return "joined"
    with tf.Graph().as_default():
        x, train, step = counting(ctx)
        tf.summary.scalar("x", x)
        with tf.train.MonitoredTrainingSession(
            ctx.server.target,
            is_chief=ctx.is_chief,
            checkpoint_dir=args or str(ctx.checkpoint_dir),
            save_summaries_steps=2,
        ) as client:
            for _ in range(5):
                client.run(train)
            return x.device, float(client.run(x)), int(client.run(step))


def test_a_chief_restores_what_the_last_one_saved(cluster: dtf.Cluster) -> None:
    first = cluster.run(monitored)
    (device, _, _), _, joined = first.result()
    assert (device, joined) == ("/job:ps/task:0", "joined")
    assert task_states(first, "ps:0")[-2:] == ["serving", "succeeded"]
    directory = Path(first.info.run_dir) / "checkpoints"
    names = [path.name for path in directory.iterdir()]
    assert "checkpoint" in names
    assert any(name.startswith("events.out.tfevents") for name in names)

    again = cluster.run(monitored, str(directory))
    x, step = max(again.result()[rank][1:] for rank in (0, 1))
    assert x == step > 10  # five of each worker in this run, and those that the chief had saved in the first


STEPS, HELD_AT = 20, 11


def saving(holds: bool, ctx: Any) -> Any:
    """Train a linear regression, starting from its checkpoint. With ``holds``, the first attempt hangs in the middle.

    Return the step that it began with, and the weights.
    """
    import threading

    import numpy as np
    import tensorflow.compat.v1 as tf

    if ctx.job_name == "ps":
        ctx.server.join()
        return None
    random = np.random.default_rng(7)
    x, y = random.normal(size=(STEPS, 16, 8)), random.normal(size=(STEPS, 16, 1))
    with tf.Graph().as_default():
        with tf.device(placed(ctx)):
            step = tf.train.get_or_create_global_step()
            features, targets = tf.placeholder(tf.float32, (16, 8)), tf.placeholder(tf.float32, (16, 1))
            weights = tf.get_variable("weights", (8, 1), initializer=tf.zeros_initializer())
            loss = tf.reduce_mean(tf.square(tf.matmul(features, weights) - targets))
            train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, step)
        with tf.train.MonitoredTrainingSession(
            ctx.server.target, is_chief=ctx.is_chief, checkpoint_dir=str(ctx.checkpoint_dir), save_checkpoint_steps=4
        ) as client:
            began = at = int(client.run(step))
            while at < STEPS:
                client.run(train, {features: x[at], targets: y[at]})
                at = int(client.run(step))
                if holds and (ctx.attempt, at) == (1, HELD_AT):
                    (ctx.run_dir / "held").touch()
                    threading.Event().wait()
            return began, client.run(weights).tolist()


@pytest.mark.parametrize("lost", ["worker:0", "ps:0"])
def test_a_program_that_is_killed_is_started_again_and_goes_on_from_its_own_checkpoint(
    cluster: dtf.Cluster, lost: str
) -> None:
    jobs = {"worker": 1, "ps": 1}
    whole = cluster.run(saving, False, jobs=jobs, threads_per_task=1).result()[0]
    run = cluster.run(saving, True, jobs=jobs, threads_per_task=1, restart=dtf.Restart(), wait=False)
    held = Path(run.info.run_dir) / "held"
    until(lambda: held.exists() or run.info.state.is_final, lambda: run)
    newest = max(int(path.stem.rpartition("-")[2]) for path in held.parent.glob("checkpoints/*.index"))
    (pid,) = [task.pid for task in run.info.tasks if task.task == lost]
    os.kill(pid, signal.SIGKILL)
    began, weights = run.result(left_s())["worker:0"]
    assert [task.attempt for task in run.info.tasks] == [1, 1]
    assert began == newest
    assert 0 < began < HELD_AT
    assert (whole[0], weights) == (0, whole[1])


def slow_last(args: Any, ctx: Any) -> Any:
    """Start TensorFlow's own server. The second worker is still working when the first one has finished."""
    import tensorflow.compat.v1 as tf

    server = tf.distribute.Server(ctx.cluster_spec.as_tf(), ctx.job_name, ctx.task_index)
    if ctx.job_name == "ps":
        server.join()
        return None
    with tf.Graph().as_default():
        x, train, _ = counting(ctx)
        with tf.Session(server.target) as client:
            client.run(tf.global_variables_initializer())
        if ctx.task_index == 0:
            return None
        time.sleep(0.5)
        with tf.Session(server.target) as client:  # a new session spans every task again
            client.run(train)
            return float(client.run(x))


def test_a_worker_that_has_finished_keeps_its_server_up(cluster: dtf.Cluster) -> None:
    run = cluster.run(slow_last)
    assert run.result()["worker:1"] == 1.0
    assert task_states(run, "worker:0")[-3:] == ["running", "finished", "succeeded"]
    ended = [task for task in run.info.tasks if task.state.value == "succeeded"]
    assert len(ended) == 3


def sums_by_tensorflow(args: Any, ctx: Any) -> float:
    import tensorflow as tf

    from jupyter_dtf.backend.task.collectives.ring import CollectiveReducer

    total = CollectiveReducer(ctx.rank, 2, "sums").reduce_tensors([tf.ones(1000)], "sum", "sums")
    return float(total[0][0])


def test_a_task_that_has_its_sum_serves_the_others_theirs() -> None:
    """TensorFlow's collectives fetch data from a task whose own program may already have finished."""
    with dtf.Cluster(jobs={"worker": 2}) as cluster:
        run = cluster.run(sums_by_tensorflow)
        assert run.result() == [2.0, 2.0]
    for task in ("worker:0", "worker:1"):
        assert task_states(run, task)[-3:] == ["running", "finished", "succeeded"]


def supervised(args: Any, ctx: Any) -> Any:
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()  # otherwise, its threads would not know the graph
    if ctx.job_name == "ps":
        ctx.server.join()
        return None
    with tf.Graph().as_default():
        x, train, step = counting(ctx)
        supervisor = tf.train.Supervisor(
            is_chief=ctx.is_chief, logdir=str(ctx.checkpoint_dir), global_step=step, save_model_secs=0
        )
        with supervisor.managed_session(ctx.server.target) as client:
            while int(client.run(step)) < 20:
                client.run(train)
            return float(client.run(x))


def test_a_supervisor_manages_the_sessions(cluster: dtf.Cluster) -> None:
    assert all(20 <= x <= 22 for x in cluster.run(supervised).result()[:2])


def synchronous(args: Any, ctx: Any) -> Any:
    """Train with three workers, the third of which is slow. Each step uses the first two gradients that arrive.

    The chief's session hands out the tokens that let a worker take its next step. When the chief ends, it leaves some
    for workers that are waiting for one. Its thread for tokens may wait for gradients that no worker sends any more,
    hence the grace period.
    """
    import tensorflow.compat.v1 as tf

    if ctx.job_name == "ps":
        ctx.server.join()
        return None
    with tf.Graph().as_default():
        with tf.device(placed(ctx)):
            step = tf.train.get_or_create_global_step()
            x = tf.get_variable("x", initializer=0.0)
            optimizer = tf.train.SyncReplicasOptimizer(
                tf.train.GradientDescentOptimizer(1.0), replicas_to_aggregate=2, total_num_replicas=3
            )
            train = optimizer.minimize(-x, step)
        tokens = optimizer.get_init_tokens_op(3)
        hooks = [optimizer.make_session_run_hook(ctx.is_chief)]
        with tf.train.MonitoredTrainingSession(
            ctx.server.target, is_chief=ctx.is_chief, hooks=hooks, stop_grace_period_secs=1
        ) as client:
            own_steps, reached = 0, 0
            while reached < 10:
                client.run(train)
                reached = client.run(step)
                own_steps += 1
                if ctx.task_index == 2:
                    time.sleep(0.2)
            if ctx.is_chief:
                client.run(tokens)
        return own_steps, int(reached)


def test_synchronous_replicas_with_a_backup_worker(cluster: dtf.Cluster) -> None:
    chief, _, slow, _ = cluster.run(synchronous, jobs={"worker": 3, "ps": 1}).result()
    assert min(chief[1], slow[1]) >= 10
    assert slow[0] < slow[1], "the others took steps without it"


def failing(args: Any, ctx: Any) -> Any:
    if ctx.job_name == "ps" or ctx.task_index == 0:
        ctx.server.join()
    raise ValueError("no luck")


def test_a_failure_ends_those_that_serve(cluster: dtf.Cluster) -> None:
    with pytest.raises(dtf.RunFailed, match="ValueError: no luck") as caught:
        cluster.run(failing)
    assert caught.value.task == "worker:1"
    states = {task.task: task.state.value for task in dtf.run(caught.value.run_id).info.tasks}
    assert states["worker:1"] == "failed"
    assert set(states.values()) <= {"failed", "stopped"}


def until_stopped(args: Any, ctx: Any) -> Any:
    import tensorflow.compat.v1 as tf

    if ctx.job_name == "ps":
        ctx.server.join()
        return None
    with tf.Graph().as_default():
        x, train, _ = counting(ctx)
        with tf.train.MonitoredTrainingSession(ctx.server.target, is_chief=ctx.is_chief) as client:
            while not ctx.should_stop:
                ctx.report(x=client.run([train, x])[1])
            return float(client.run(x))  # its variables are available until the end


def test_a_stop_lets_the_workers_end_before_their_servers(cluster: dtf.Cluster) -> None:
    run = cluster.run(until_stopped, wait=False)
    run.wait_for(lambda info: info.latest.get("x", 0) > 0, timeout_s=left_s())
    run.stop()
    run.wait()
    assert run.status == "stopped"
    assert {task.task: task.state.value for task in run.info.tasks} == dict.fromkeys(
        ("worker:0", "worker:1", "ps:0"), "succeeded"
    )
