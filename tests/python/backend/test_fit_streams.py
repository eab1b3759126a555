"""Training from generators on a real cluster, compared with plain Keras, and everything that can go wrong with them."""

from __future__ import annotations

import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import cloudpickle
import keras
import numpy as np
import pytest
from sklearn.datasets import load_digits

import jupyter_dtf as dtf
from jupyter_dtf.client.session import session
from jupyter_dtf.errors import Conflict, InvalidInput, RunFailed
from jupyter_dtf.schema.run import TaskState

from ..patience import left_s, until
from ..tiers import cut
from .test_survivors import Dies, pids

pytestmark = [
    pytest.mark.module_directories,
    pytest.mark.filterwarnings("ignore:Your input ran out of data"),
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed"),
]
cloudpickle.register_pickle_by_value(sys.modules[__name__])

X, Y = load_digits(return_X_y=True)
X, Y = X[:360].astype("float32") / 16, Y[:360]
SIZES = (30, 31, 7, 2, 30)
ONE, TWO = "/job:worker/task:0", "/job:worker/task:1"


@pytest.fixture(scope="module")
def cluster(no_process_left_by_module: None) -> Iterator[dtf.Cluster]:
    with dtf.Cluster(jobs={"worker": 3, "ps": 1}, name="streams", threads_per_host=4) as shared:
        yield shared
    session().close()


def batches(count: int, sizes: tuple[int, ...] = SIZES) -> Iterator[Any]:
    """Yield batches of several sizes."""
    for number in range(count):
        at, size = 30 * number % 300, sizes[number % len(sizes)]
        yield X[at : at + size], Y[at : at + size]


def model(optimizer: Any = "sgd") -> Any:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(16, activation="relu", name="hidden"), keras.layers.Dense(10, name="out")]
    made = keras.Sequential([keras.Input((64,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    made.compile(optimizer, loss, metrics=["accuracy"])
    return made


def fit(cluster: dtf.Cluster, data: Any, workers: int = 2, **options: Any) -> Any:
    jobs = options.pop("jobs", {"worker": workers})
    return cluster.fit(options.pop("model", None) or model(), data, jobs=jobs, threads_per_task=1, **options)


def assert_as_alone(run: Any, data: Any, **options: Any) -> None:
    """Check that the run's weights and history are those of plain Keras with the same generator."""
    alone = model()
    history = alone.fit(data, verbose=0, **options)
    for ours, theirs in zip(run.model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    assert run.history.keys() == history.history.keys()
    for metric, values in history.history.items():
        np.testing.assert_allclose(run.history[metric], values, rtol=1e-4, atol=1e-6, err_msg=metric)


STRATEGIES: dict[str, tuple[Any, dict[str, int]]] = {
    "one task": ("allreduce", {"worker": 1}),
    "two": ("allreduce", {"worker": 2}),
    "three": ("allreduce", {"worker": 3}),
    "servers in step": (dtf.ParameterServer(sync=True), {"worker": 2, "ps": 1}),
    "mirrored": ("mirrored", {"worker": 2}),
    "pipeline": (dtf.Pipeline({"hidden": ONE, "out": TWO}, microbatches=2), {"worker": 2}),
}


@pytest.mark.parametrize("case", cut(STRATEGIES, keep=["two", "servers in step", "pipeline"]))
def test_weights_and_history_are_those_of_plain_keras(cluster: dtf.Cluster, case: str) -> None:
    strategy, jobs = STRATEGIES[case]
    sizes = (30, 32, 8, 2, 30) if case in ("pipeline", "mirrored") else SIZES
    run = fit(
        cluster,
        batches(14, sizes),
        jobs=jobs,
        strategy=strategy,
        epochs=3,
        steps_per_epoch=4,
        validation_data=batches(5, sizes),
        wait=False,
    )
    run.result(left_s())
    assert_as_alone(run, batches(14, sizes), epochs=3, steps_per_epoch=4, validation_data=batches(5, sizes))


@pytest.mark.parametrize(
    ("count", "options"), [(7, {"epochs": 3}), (7, {"epochs": 4, "steps_per_epoch": 3}), (1, {"epochs": 2})]
)
def test_a_generator_that_ends_is_what_it_is_to_keras(
    cluster: dtf.Cluster, count: int, options: dict[str, int]
) -> None:
    run = fit(cluster, batches(count), wait=False, **options)
    run.result(left_s())
    assert_as_alone(run, batches(count), **options)


def test_asynchronous_servers_take_every_share_once(cluster: dtf.Cluster) -> None:
    jobs = {"worker": 2, "ps": 1}
    run = fit(cluster, batches(40), jobs=jobs, strategy="ps", epochs=2, steps_per_epoch=20, wait=False)
    run.finish()
    assert sum(count["applied"] for count in run.updates.values()) == 80
    assert run.history["loss"][-1] < run.history["loss"][0]


def test_structures_tensors_and_weights_travel(cluster: dtf.Cluster) -> None:
    import tensorflow as tf

    def named() -> Any:
        keras.utils.set_random_seed(3)
        inputs = {"a": keras.Input((64,), name="a"), "b": keras.Input((None,), name="b", dtype="int32")}
        length = keras.ops.cast(keras.ops.sum(inputs["b"], axis=1, keepdims=True), "float32")
        made = keras.Model(inputs, keras.layers.Dense(10)(inputs["a"]) + length)
        made.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        return made

    def yields(out: Any) -> Iterator[Any]:
        for number in range(8):
            digits = np.add(X[30 * number : 30 * number + 30], 0.0, dtype=np.float64, out=out)
            lengths = tf.ones((30, number + 1), tf.int32)
            yield {"a": digits, "b": lengths}, Y[30 * number : 30 * number + 30], np.linspace(0, 1, 30)

    ours, alone = named(), named()
    fit(cluster, yields(np.empty((30, 64))), model=ours)  # one array, refilled for each batch
    alone.fit(yields(None), verbose=0)  # Keras reads ahead, and would train on the array's later contents
    for own, theirs in zip(ours.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(own, theirs, rtol=1e-4, atol=1e-6)


def test_validation_of_so_many_steps_is_the_same_ones_each_time(cluster: dtf.Cluster) -> None:
    drawn: list[int] = []

    def endless() -> Iterator[Any]:
        while True:
            drawn.append(len(drawn))
            at = 30 * drawn[-1] % 300
            yield X[at : at + 30], Y[at : at + 30]

    ours = model(keras.optimizers.SGD(0.0))
    run = fit(
        cluster, batches(40), model=ours, epochs=3, steps_per_epoch=2, validation_data=endless(), validation_steps=4
    )
    assert len(drawn) == 4
    expected = ours.evaluate(X[:120], Y[:120], verbose=0, return_dict=True)["loss"]
    assert run.history["val_loss"] == pytest.approx([expected] * 3, rel=1e-5)


def test_a_program_reads_its_shares(cluster: dtf.Cluster) -> None:
    import tensorflow as tf

    def main_fun(args: Any, ctx: Any) -> list[list[int]]:
        dataset = ctx.feed()
        return [[int(y) for _, labels in dataset for y in labels] for _ in range(args)]

    run = cluster.run(main_fun, 1, feed=batches(6), jobs={"worker": 2}, threads_per_task=1)
    shares = [run.result()[rank][0] for rank in range(2)]
    assert [len(part) for part in shares] == [15 + 15 + 3 + 1 + 15 + 15, 15 + 16 + 4 + 1 + 15 + 15]
    assert sorted(shares[0] + shares[1]) == sorted(int(y) for _, labels in batches(6) for y in labels)
    with pytest.raises(dtf.RunFailed, match="of the generator must be read only once"):
        cluster.run(main_fun, 2, feed=batches(6), jobs={"worker": 2}, threads_per_task=1)
    spec = tf.TensorSpec([None, 64], tf.float32), tf.TensorSpec([None], tf.int64)
    dataset = tf.data.Dataset.from_generator(lambda: batches(6), output_signature=spec)
    run = cluster.run(main_fun, 2, feed=dataset, jobs={"worker": 2}, threads_per_task=1)
    assert [run.result()[rank] for rank in range(2)] == [[part, part] for part in shares]


def until_step(run: Any, step: int) -> None:
    """Wait until all tasks have reported a step."""

    def reported() -> bool:
        assert not run.info.state.is_final, run
        return set(run.metrics.query(f"metric == 'loss' and step >= {step}")["task"]) >= {"worker:0", "worker:1"}

    until(reported, lambda: run)


def raises(at: int) -> Iterator[Any]:
    for number, batch in enumerate(batches(100, (30,))):
        if number == at:
            raise ZeroDivisionError("the sensor is off")
        yield batch


def changes(at: int) -> Iterator[Any]:
    for number, (x, y) in enumerate(batches(100, (30,))):
        yield (x[:, :10] if number == at else x), y


def test_what_a_generator_raises_reaches_the_cell_once(cluster: dtf.Cluster) -> None:
    with pytest.raises(
        RunFailed,
        match=r"RuntimeError: The generator raised ZeroDivisionError: the sensor is off \(at batch 7\)$",
    ) as caught:
        fit(cluster, raises(6), epochs=3, steps_per_epoch=4)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert "raises" in "".join(traceback.format_tb(caught.value.__cause__.__traceback__))
    assert 'raise ZeroDivisionError("the sensor is off")' in caught.value.traceback
    run = dtf.run(caught.value.run_id)
    assert run.info.tasks and all(len(found) == 1 for found in pids(run).values())
    until(lambda: not feeding_threads(), feeding_threads)


def feeding_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name in ("dtf-read", "dtf-feed")]


def test_batches_of_another_shape_are_named(cluster: dtf.Cluster) -> None:
    with pytest.raises(RunFailed, match=r"Batch 6 of the generator: .*\(None, 64\).*got float32 of shape \(30, 10\)"):
        fit(cluster, changes(5), epochs=3, steps_per_epoch=4)


def test_what_cannot_be_a_batch_is_refused_before_anything_starts(cluster: dtf.Cluster) -> None:
    for data, text in (
        (iter(()), "must yield at least one batch"),
        (iter([[X, Y]]), r"must yield a tuple \(x,\), \(x, y\) or \(x, y, sample_weight\)"),
        (iter([(X, Y[:5])]), "Batch 1 of the iterator: .*must have the same length"),
        (iter([(X, Y), (X,)]), "Batch 2 of the iterator: All batches must have the same structure"),
        (iter([(X, object())]), "at least one dimension"),
    ):
        with pytest.raises(InvalidInput, match=text):
            fit(cluster, data)
    with pytest.raises(InvalidInput, match="`batch_size` must be left out for the generator, which is already batched"):
        fit(cluster, batches(3), batch_size=3)
    with pytest.raises(InvalidInput, match="`y` must be contained in the values that the generator yields"):
        cluster.fit(model(), batches(3), Y)


def test_a_run_that_is_stopped_closes_its_generator(cluster: dtf.Cluster) -> None:
    closed = threading.Event()

    def endless() -> Iterator[Any]:
        try:
            while True:
                yield X[:30], Y[:30]
        finally:
            closed.set()

    run = fit(cluster, endless(), steps_per_epoch=1000, epochs=1000, wait=False)
    until_step(run, 3)
    run.stop()
    assert run.wait(left_s()).status == "stopped"
    assert closed.wait(left_s())
    with pytest.raises(Conflict, match="has already been read by another run and cannot be read again"):
        run.resume()


def test_who_waits_for_a_batch_can_be_stopped(cluster: dtf.Cluster) -> None:
    asked, on = threading.Event(), threading.Event()

    def stuck() -> Iterator[Any]:
        yield from batches(5)
        asked.set()
        on.wait()

    run = fit(cluster, stuck(), steps_per_epoch=10, epochs=5, wait=False)
    try:
        assert asked.wait(left_s())
        until_step(run, 5)
        run.stop()
        assert run.wait(left_s()).status == "stopped"
        assert all(task.state is TaskState.SUCCEEDED for task in run.info.tasks)  # none had to be killed
    finally:
        on.set()


@pytest.mark.parametrize("strategy", ["allreduce", "ps"])
def test_a_stop_in_the_middle_of_an_epoch_does_not_complete_it(cluster: dtf.Cluster, strategy: str) -> None:
    """While it waits for the 15th batch, 6 of the 8 steps of epoch 2 are done, and none of the validation."""
    asked, on = threading.Event(), threading.Event()

    def stuck() -> Iterator[Any]:
        yield from batches(14)
        asked.set()
        on.wait()

    options: dict[str, Any] = {
        "jobs": {"worker": 2, **({"ps": 1} if strategy == "ps" else {})},
        "strategy": dtf.ParameterServer(sync=True) if strategy == "ps" else strategy,
    }
    run = fit(cluster, stuck(), steps_per_epoch=8, epochs=5, validation_data=batches(2), wait=False, **options)
    try:
        assert asked.wait(left_s())
        until_step(run, 14)
        run.stop()
        assert run.wait(left_s()).status == "stopped"
    finally:
        on.set()
    newest = run.checkpoints[-1]
    assert (newest.step, newest.epoch, newest.step_in_epoch) == (14, 1, 6)
    with open(f"{newest.path}/state.pickle", "rb") as file:
        assert cloudpickle.load(file).history_epochs == [0]


def test_the_generator_is_read_within_a_bound(cluster: dtf.Cluster) -> None:
    drawn: list[int] = []
    on = threading.Event()

    class Holds(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            from jupyter_dtf.backend.task.context import current

            if batch == 3:
                current().stop_requested.wait()

    def large() -> Iterator[Any]:
        while True:
            drawn.append(1)
            yield np.zeros((1000, 4000), np.float32), np.zeros(1000, np.int64)

    keras.utils.set_random_seed(0)
    wide = keras.Sequential([keras.Input((4000,)), keras.layers.Dense(2)])
    wide.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    run = fit(cluster, large(), model=wide, steps_per_epoch=500, callbacks=[Holds()], wait=False, check=False)
    until_step(run, 3)
    feed = run._job.feeds[0]
    until(lambda: not feed._window.has_room, "a full window")  # there is no notification of it
    assert 4 <= len(drawn) <= 4 + 2 + 4 + 3  # done, prefetched, in sockets, read ahead (32 MB and one more)
    on.set()
    run.stop(now=True)
    run.wait(left_s())


def test_the_others_go_on_when_a_task_is_lost_and_no_step_is_repeated(cluster: dtf.Cluster) -> None:
    options: dict[str, Any] = {"epochs": 3, "steps_per_epoch": 8, "validation_data": batches(5)}
    run = fit(
        cluster, batches(30), callbacks=[Dies({1: {"worker:1": ("step", 11)}})], checkpoint=False, wait=False, **options
    )
    run.result(left_s())
    assert [len(found) for found in pids(run).values()] == [1, 2]
    alone = model()  # the lost task's metrics of its epoch are lost, so they are not compared
    alone.fit(batches(30), verbose=0, **options | {"validation_data": batches(5)})
    for ours, theirs in zip(run.model.get_weights(), alone.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_all_are_started_again_from_a_checkpoint_while_its_batches_are_kept(cluster: dtf.Cluster) -> None:
    strategy = dtf.AllReduce(backward_passes_per_step=1, transport="ring")
    options: dict[str, Any] = {"epochs": 3, "steps_per_epoch": 8}
    run = fit(
        cluster,
        batches(30),
        strategy=strategy,
        callbacks=[Dies({1: {"worker:1": ("step", 11)}})],
        checkpoint=dtf.Checkpoint(every_steps=3),
        wait=False,
        **options,
    )
    run.result(left_s())
    assert [len(found) for found in pids(run).values()] == [2, 2]
    assert_as_alone(run, batches(30), **options)


def test_a_training_that_would_read_again_what_is_gone_says_so(cluster: dtf.Cluster) -> None:
    def large() -> Iterator[Any]:
        while True:
            yield np.zeros((1000, 4000), np.float32), np.zeros(1000, np.int64)

    keras.utils.set_random_seed(0)
    wide = keras.Sequential([keras.Input((4000,)), keras.layers.Dense(2)])
    wide.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(
        RunFailed, match="batch 1 of the generator, but .* have already been read and cannot be read again"
    ):
        fit(
            cluster,
            large(),
            model=wide,
            strategy=dtf.AllReduce(transport="ring"),
            steps_per_epoch=100,
            check=False,
            callbacks=[Dies({1: {"worker:1": ("step", 20)}})],
            checkpoint=False,
        )


CLIENT = """
import sys, threading
import numpy as np, keras
import jupyter_dtf as dtf
made = keras.Sequential([keras.Input((1000,)), keras.layers.Dense(1)])
made.compile("sgd", "mse")
def endless():
    number = 0
    while True:
        number += 1
        if number == 50:
            begun.wait()
            print(run.id, flush=True)
            sys.stdin.readline()
        yield np.zeros((1000, 1000)), np.zeros((1000, 1))  # so large that tasks must have taken some
cluster = dtf.connect("streams")
begun = threading.Event()
run = cluster.fit(made, endless(), steps_per_epoch=10**6, jobs={"worker": 2}, threads_per_task=1, wait=False)
begun.set()
run.wait()
"""


def test_tasks_say_that_their_client_has_gone(cluster: dtf.Cluster) -> None:
    cluster.wait_ready()
    client = subprocess.Popen([sys.executable, "-c", CLIENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout is not None
        run_id = client.stdout.readline().strip()
        assert run_id
    finally:
        client.kill()
        client.communicate()
    run = dtf.run(run_id)
    with pytest.raises(RunFailed, match="The client that fed the run has exited, and the generator"):
        run.result(left_s())
    assert all(len(found) == 1 for found in pids(run).values())
