"""On a real cluster with parameter servers, killed and frozen workers come back while the others continue.

The model counts examples: each has a row of an embedding, whose gradient is one. At the end, the rows therefore show
how often each example was trained, by whichever worker and in whatever order.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import cloudpickle
import keras
import numpy as np
import pytest

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.schema.events import AnyEvent, CheckpointSaved, Note, RunChanged, TaskChanged
from jupyter_dtf.schema.run import TaskState

from .. import patience
from ..patience import left_s

pytestmark = pytest.mark.module_directories
cloudpickle.register_pickle_by_value(sys.modules[__name__])

EXAMPLES, BATCH, STEPS = 1200, 12, 100
HELD = 30
LOOK_S = 0.01


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    """Up to three workers and two servers, of one thread each."""
    with dtf.Cluster(jobs={"worker": 3, "ps": 2}, name="rejoins", threads_per_host=2) as shared:
        yield shared
    session().close()


def counter() -> Any:
    """Return a model that counts how often it has seen each example."""
    model = keras.Sequential(
        [keras.Input((), dtype="int32"), keras.layers.Embedding(EXAMPLES, 1, embeddings_initializer="zeros")]
    )
    model.compile(keras.optimizers.SGD(1.0), lambda _, seen: -seen)
    return model


def counts(run: dtf.FitRun, workers: int) -> Counter[int]:
    """Return how many examples were trained how many times, given the number of workers that share a batch."""
    seen = run.model.get_weights()[0][:, 0] * (BATCH // workers)
    return Counter(np.round(seen).astype(int).tolist())


class Holds(keras.callbacks.Callback):
    """Holds some workers in the middle of an epoch, where they create files. Once all of these exist, the other workers
    wait until the held ones have been lost.
    """

    run_on_all_tasks = True

    def __init__(self, held: tuple[str, ...], batch: int = HELD) -> None:
        super().__init__()
        self._held = held
        self._batch = batch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        from jupyter_dtf.backend.task.context import current

        ctx = current()
        if ctx.attempt > 1:
            return
        if ctx.task in self._held and batch >= self._batch:
            (ctx.run_dir / f"{ctx.task} is held").touch()
            threading.Event().wait()
        if all((ctx.run_dir / f"{task} is held").exists() for task in self._held):
            while not (ctx.run_dir / "lost").exists():
                time.sleep(LOOK_S)


def fit(cluster: dtf.Cluster, workers: int, strategy: dtf.ParameterServer, **more: Any) -> dtf.FitRun:
    arguments: dict[str, Any] = {"jobs": {"worker": workers, "ps": 1}, "wait": False, "check": False, **more}
    numbers = np.arange(EXAMPLES, dtype="int32")
    return cluster.fit(
        counter, numbers, numbers, batch_size=BATCH, strategy=strategy, threads_per_task=1, verbose=0, **arguments
    )


def events(run: dtf.Run) -> list[AnyEvent]:
    return [event for _seq, event in session().hub.events(run.id)]


def states(run: dtf.Run) -> list[str]:
    return [event.state.value for event in events(run) if isinstance(event, RunChanged)]


def note(run: dtf.Run, title: str) -> Note:
    (found,) = [event for event in events(run) if isinstance(event, Note) and event.title.startswith(title)]
    return found


def pids(run: dtf.Run) -> dict[str, int]:
    return {task.task: task.pid for task in run.info.tasks}


def lose(run: dtf.Run, lost: dict[str, signal.Signals]) -> None:
    """Send signals to tasks once they are held, and let the others continue."""
    place = os.fspath(run.info.run_dir)
    held = [os.path.join(place, f"{task} is held") for task in lost]
    patience.until(lambda: all(map(os.path.exists, held)) or run.info.state.is_final, lambda: (run, events(run)))
    for task, number in lost.items():
        os.kill(pids(run)[task], number)
    with open(os.path.join(place, "lost"), "w"):
        pass


def steps_of(run: dtf.Run, task: str, metric: str = "staleness") -> list[tuple[float, int]]:
    """Return the steps that a task has reported, each with its attempt."""
    points = run.metrics.query(f"metric == '{metric}' and task == '{task}'").sort_values("time")
    return [(float(step), int(attempt)) for step, attempt in zip(points.step, points.attempt, strict=True)]


def test_workers_that_are_killed_and_frozen_come_back_and_all_examples_are_trained(cluster: dtf.Cluster) -> None:
    lost = {"worker:1": signal.SIGKILL, "worker:2": signal.SIGSTOP}
    run = fit(cluster, 3, dtf.ParameterServer(), epochs=2, callbacks=[Holds(tuple(lost))])
    run.wait_for(lambda info: info.state.value == "running" or info.state.is_final, left_s())
    before = pids(run)
    lose(run, lost)
    run.result(left_s())
    assert states(run) == ["launching", "running", "succeeded"]
    assert counts(run, 3) == {2: EXAMPLES}
    assert {task: found["applied"] for task, found in run.updates.items()} == dict.fromkeys(run.updates, 2 * STEPS)

    after = pids(run)
    assert [after[task] == before[task] for task in before] == [True, False, False, True]
    assert [task.attempt for task in run.info.tasks] == [0, 1, 2, 0]
    assert steps_of(run, "worker:0") == [(step, 0) for step in range(1, 2 * STEPS + 1)]
    for attempt, task in enumerate(lost, start=1):
        reported = steps_of(run, task)
        steps = [step for step in range(1, 2 * STEPS + 1) if step != HELD + 1]  # which it has taken but not reported
        assert [step for step, _ in reported] == steps
        assert {number for _, number in reported} == {0, attempt}

    died = note(run, "worker:1 died (SIGKILL)")
    assert died.text.endswith("The other tasks continue, and this one is restarted: attempt 2 of 4")
    assert note(run, "worker:1 is back").text == f"It continues with epoch 1, after {HELD + 1} of its steps"
    assert note(run, "worker:1 is restarted").title.endswith("attempt 2 of 4")
    frozen = [event for event in events(run) if isinstance(event, Note) and event.title.startswith("worker:2 has been")]
    assert frozen[-1].text.endswith("The other tasks continue, and this one is restarted: attempt 3 of 4")
    of_it = [event for event in events(run) if isinstance(event, TaskChanged) and event.task == "worker:1"]
    assert [event.state for event in of_it if event.attempt == 0][-1] is TaskState.FAILED
    assert of_it[-1].state is TaskState.SUCCEEDED


def test_a_server_or_a_chief_that_dies_begins_the_gang_again_from_its_checkpoint(cluster: dtf.Cluster) -> None:
    policy = dtf.Checkpoint(every_steps=20, keep=100)
    run = fit(cluster, 2, dtf.ParameterServer(), epochs=4, checkpoint=policy)
    for attempt, task in enumerate(("ps:0", "worker:0"), start=1):

        def saved(attempt: int = attempt) -> bool:
            found = [event for event in events(run) if isinstance(event, CheckpointSaved)]
            return run.info.state.is_final or any(event.attempt == attempt - 1 for event in found)

        patience.until(saved, lambda: events(run))
        os.kill(pids(run)[task], signal.SIGKILL)
        run.wait_for(lambda info, n=attempt: info.state.is_final or min(t.attempt for t in info.tasks) == n, left_s())
    run.result(left_s())
    assert states(run) == ["launching", *["running", "restarting"] * 2, "running", "succeeded"]
    assert counts(run, 2) == {4: EXAMPLES}

    middle = [info.step for info in run.checkpoints if info.step_in_epoch][-1]
    again = run.resume(middle)
    assert again.status == "succeeded"
    assert counts(again, 2) == {4: EXAMPLES}
    assert again.history.epoch == [0, 1, 2, 3]
    info = next(info for info in run.checkpoints if info.step == middle)
    other = fit(cluster, 1, dtf.ParameterServer(), epochs=5, resume=info, wait=True)
    assert other.updates["worker:0"]["scheduled"] == 5 * STEPS - middle
    longer = fit(cluster, 2, dtf.ParameterServer(), epochs=5, resume=again, wait=True)
    assert counts(longer, 2) == {5: EXAMPLES}


@pytest.mark.parametrize("servers", [1, 2])
def test_with_backup_workers_the_barrier_does_not_wait_and_takes_the_new_one_in(
    cluster: dtf.Cluster, servers: int
) -> None:
    strategy = dtf.ParameterServer(sync=True, backup_workers=1, split_bytes=64)
    policy, jobs = dtf.Checkpoint(every_epochs=1), {"worker": 3, "ps": servers}
    holds = Holds(("worker:2",), 5)
    run = fit(cluster, 3, strategy, epochs=3, callbacks=[holds], jobs=jobs, checkpoint=policy)
    lose(run, {"worker:2": signal.SIGKILL})
    run.result(left_s())
    assert states(run) == ["launching", "running", "succeeded"]
    assert [task.attempt for task in run.info.tasks] == [0, 0, 1, *[0] * servers]
    late = 2 * len(run.updates)  # the last ones to finish may take a step or two alone
    assert 2 * 3 * STEPS - late <= sum(found["applied"] for found in run.updates.values()) <= 2 * 3 * STEPS
    back = [step for step, attempt in steps_of(run, "worker:2", "dropped") if attempt == 1]
    assert back == sorted(back)
    assert back[-1] > 3 * STEPS - 10, "it has left before the end"
    assert run.checkpoints[-1].step == 3 * STEPS
    again = fit(cluster, 3, strategy, epochs=3, jobs=jobs, resume=run.checkpoints[0], wait=True)
    assert again.status == "succeeded"
    assert again.checkpoints[-1].step == 3 * STEPS


def test_a_run_that_is_stopped_does_not_wait_for_who_is_away(cluster: dtf.Cluster) -> None:
    run = fit(cluster, 2, dtf.ParameterServer(), epochs=1000, callbacks=[Holds(("worker:1",))])
    lose(run, {"worker:1": signal.SIGSTOP})
    run.stop()
    assert run.wait(left_s()).status == "stopped"
    assert not [event for event in events(run) if isinstance(event, Note) and "did not stop on its own" in event.title]
    assert [task.attempt for task in run.info.tasks] == [0, 0, 0]
    assert sum(counts(run, 2).values()) == EXAMPLES
    assert run.checkpoints[-1].step == steps_of(run, "worker:0")[-1][0]
