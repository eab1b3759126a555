"""Tests of passed datasets: the shares of all tasks, put together, are the batches of one process."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from jupyter_dtf.backend.task.fit.data import TaskData
from jupyter_dtf.backend.task.fit.keras_fit import _within_a_pass
from jupyter_dtf.backend.task.fit.sources.base import Opened, Reading, Share
from jupyter_dtf.backend.task.fit.sources.fed_dataset import FedDataset
from jupyter_dtf.backend.task.fit.sources.graph_dataset import GraphDataset, PureGraphDataset
from jupyter_dtf.client.fit_data import data_of, validation_of
from jupyter_dtf.errors import InvalidInput
from jupyter_dtf.schema.payload import pack, unpack

from ...gang import divide_cpu, run_gang

DATASET: Any = tf.data.Dataset
X = np.random.default_rng(0).random((23, 3)).astype(np.float32)
Y = np.arange(23)
ALONE, BELOW = "takes its share of it", "maps only these"
"""Parts of the descriptions of a dataset that each task computes whole, and of one whose maps are divided as well."""


def slices() -> Any:
    return DATASET.from_tensor_slices((X, Y))


def doubled(x: Any, y: Any) -> Any:
    return x * 2 + tf.cast(y, tf.float32), y


def words() -> Any:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [5, 6]), -1)
    offset = tf.Variable(10)
    found = DATASET.from_tensor_slices(["a", "b", "c", "b", "a"] * 3).map(lambda word: table.lookup(word) + offset)
    return found.map(lambda n: {"n": n, "twice": tf.stack([n, n])}).batch(4)


def ragged() -> Any:
    rows = tf.RaggedTensor.from_row_lengths(np.arange(45), np.arange(10))
    return DATASET.from_tensor_slices((rows, Y[:10])).ragged_batch(4)


def sparse() -> Any:
    return DATASET.from_tensor_slices((tf.sparse.from_dense(np.eye(7)[:, :5]), Y[:7])).batch(3)


def python() -> Any:
    def tripled(x: Any, y: Any) -> Any:
        return np.float32(3) * x, y

    def halved(x: Any) -> Any:
        return x / 2

    mapped = slices().map(lambda x, y: tf.numpy_function(tripled, [x, y], (tf.float32, tf.int64)))
    mapped = mapped.map(lambda x, y: (tf.ensure_shape(tf.py_function(halved, [x], tf.float32), [3]), y))
    return mapped.batch(6)


def augmented() -> Any:
    """Return a dataset with a layer that draws random numbers, from its own variable, for whole batches."""
    layer = keras.layers.RandomFlip("horizontal", seed=1)
    images = np.random.default_rng(1).random((10, 2, 4, 1)).astype(np.float32)
    return DATASET.from_tensor_slices(images).batch(4).map(layer)


def endless() -> Any:
    return slices().shuffle(50, seed=2).repeat().map(doubled).batch(5).prefetch(1)


def mixed() -> Any:
    """Return batches whose examples a map mixes, so that shares must be taken after the map."""
    return slices().map(doubled).batch(7).map(lambda x, y: (x - tf.reduce_mean(x, 0) + x[::-1], y))


def shuffled_twice() -> Any:
    return slices().shuffle(9, seed=4).map(doubled).shuffle(5, seed=5).batch(4)


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "batched": (lambda: slices().batch(4), ALONE),
    "one batch": (lambda: slices().batch(40), ALONE),
    "maps": (lambda: slices().map(doubled, num_parallel_calls=2).map(lambda x, y: (x, {"y": y})).batch(5), BELOW),
    "maps, rest dropped": (lambda: slices().map(doubled).batch(5, drop_remainder=True), BELOW),
    "maps, rest of two": (lambda: slices().take(12).map(doubled).batch(5).prefetch(2), BELOW),
    "maps, batched in parallel": (lambda: slices().map(doubled).batch(4, num_parallel_calls=2), BELOW),
    "maps, batches of one": (lambda: slices().map(doubled).batch(1), BELOW),
    "maps, batches of two": (lambda: slices().map(doubled).batch(2).repeat(2), BELOW),
    "maps, unknown length": (lambda: slices().filter(lambda x, y: y % 3 > 0).map(doubled).batch(5), BELOW),
    "shuffled, unknown length": (
        lambda: slices().filter(lambda x, y: y % 3 > 0).shuffle(9, seed=1).map(doubled).batch(5),
        BELOW,
    ),
    "shuffled below maps": (lambda: slices().shuffle(7, seed=3).map(doubled).batch(4), BELOW),
    "shuffled above maps": (lambda: slices().map(doubled).shuffle(7, seed=3).batch(4).prefetch(1), BELOW),
    "shuffled, the same each pass": (lambda: slices().shuffle(9, 1, reshuffle_each_iteration=False).batch(4), ALONE),
    "shuffled twice": (shuffled_twice, BELOW),
    "batches shuffled": (lambda: slices().map(doubled).batch(4).shuffle(3, seed=1), BELOW),
    "shuffled and repeated": (lambda: slices().shuffle(30, seed=1).repeat(2).map(doubled).batch(7), BELOW),
    "cached": (lambda: slices().map(doubled).cache().shuffle(9, seed=1).batch(4), ALONE),
    "mixed within batches": (mixed, ALONE),
    "padded": (lambda: DATASET.range(9).map(lambda n: tf.fill([n], n)).padded_batch(4), ALONE),
    "of changing sizes": (lambda: slices().batch(3).concatenate(slices().batch(8)), ALONE),
    "zipped": (lambda: DATASET.zip(DATASET.range(11).map(lambda n: n * 2), DATASET.range(11)).batch(3), ALONE),
    "filtered after batch": (lambda: slices().batch(4).filter(lambda x, y: y[0] > 3), ALONE),
    "interleaved": (
        lambda: (
            DATASET.range(4).interleave(lambda n: DATASET.range(n).shuffle(3, seed=1), num_parallel_calls=2).batch(2)
        ),
        ALONE,
    ),
    "words, a table, a variable": (words, BELOW),
    "ragged": (ragged, ALONE),
    "sparse": (sparse, ALONE),
    "maps between shuffle and repeat": (lambda: slices().shuffle(50, seed=2).map(doubled).repeat(2).batch(8), ALONE),
    "repeated below maps, a rest dropped": (
        lambda: slices().shuffle(50, seed=3).take(20).repeat(2).map(doubled).batch(6, drop_remainder=True),
        BELOW,
    ),
    "strings": (lambda: DATASET.from_tensor_slices([["a", "bc"], ["d", ""], ["e", "f"]]).batch(2), ALONE),
    "nested": (lambda: DATASET.from_tensor_slices(((X, {"b": X}), Y, X[:, 0])).map(lambda *e: e).batch(5), BELOW),
    "nothing beside": (lambda: DATASET.from_tensor_slices((X,)).batch(5), ALONE),
    "python": (python, BELOW),
    "augmented": (augmented, ALONE),
    "endless": (endless, BELOW),
    "seeded draws": (lambda: slices().map(lambda x, y: (x + tf.random.uniform([3], seed=3), y)).batch(4), ALONE),
    "large": (lambda: DATASET.from_tensor_slices(np.arange(40_000.0).reshape(100, -1)).map(tf.sqrt).batch(30), BELOW),
}


def sent(data: Any) -> GraphDataset:
    """Return the source as a task receives it."""
    source = unpack(pack(data_of(data, None, None, "x")))
    assert isinstance(source, GraphDataset)
    return source


def open_share(source: GraphDataset, share: Share | None = None, seed: int = 1) -> Opened:
    share = share or Share(0, 1)
    return source.open(SimpleNamespace(task="worker:0"), Reading("x", share, None, own_seed=seed))


def leaves(batch: Any) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(leaf.numpy()) if hasattr(leaf, "numpy") else leaf for leaf in tf.nest.flatten(batch)]


def put_together(parts: list[Any]) -> Any:
    def joined(*shares: Any) -> Any:
        if isinstance(shares[0], tf.SparseTensor):
            return tf.sparse.concat(0, list(shares))
        return tf.concat(shares, 0)

    return tf.nest.map_structure(joined, *parts)


def in_parts(batch: Any, size: int, last: Any) -> Any:
    """Return the batch with its examples in the order of the tasks' shares, which are contiguous or strided."""
    examples, *_ = tf.nest.flatten(batch)
    if not isinstance(examples, tf.Tensor):
        return batch
    strided = [row for rank in range(size) for row in range(rank, examples.shape[0], size)]
    found, *_ = tf.nest.flatten(last)
    if np.array_equal(examples[examples.shape[0] - len(found) :], found):
        return batch
    return tf.nest.map_structure(lambda leaf: tf.gather(leaf, strided), batch)


def equal(one: Any, other: Any) -> None:
    tf.nest.assert_same_structure(one, other)
    for a, b in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        if isinstance(a, tf.SparseTensor):
            a, b = tf.sparse.to_dense(a), tf.sparse.to_dense(b)
        if isinstance(a, tf.RaggedTensor):
            assert a.to_list() == b.to_list()
        else:
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", CASES)
def test_shares_put_together_are_the_batches(name: str) -> None:
    """This holds over two passes, for one, two and three tasks."""
    make, division = CASES[name]
    source = sent(make())
    # How far an endless pass reads ahead, and thus how often it has shuffled, depends on timing.
    passes = 1 if source.batches == -1 else 2
    expected = [list(made.take(9)) for made in [make()] for _ in range(passes)]
    for size in (1, 2, 3):
        tasks = [open_share(source, Share(rank, size)) for rank in range(size)]
        assert {task.length for task in tasks} == {source.batches}
        for batches in expected:
            received = [list(task.dataset.take(9)) for task in tasks]
            assert [len(part) for part in received] == [len(batches)] * size
            for batch, *parts in zip(batches, *received, strict=True):
                equal(in_parts(batch, size, parts[-1]), put_together(parts))
                sizes = [int(tf.nest.flatten(part)[0].shape[0]) for part in parts]
                assert max(sizes) - min(sizes) <= 1
                assert tasks[0].smallest is None or sum(sizes) >= tasks[0].smallest
        if size > 1:
            assert all(division in task.division for task in tasks)


STANDING = [(name, None) for name in ("maps", "shuffled, unknown length", "shuffled twice", "of changing sizes")]


@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize(
    ("name", "steps_per_epoch"),
    [
        *STANDING,
        ("endless", 2),
        *((name, steps) for name in ("maps", "shuffled, unknown length", "shuffled twice") for steps in (1, 2, 3)),
    ],
)
def test_stands_where_it_stood(name: str, steps_per_epoch: int | None) -> None:
    """Resuming after two epochs and a step gives the remaining batches, in the order of plain Keras."""
    make, _ = CASES[name]

    class Seen(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.epochs: list[list[Any]] = []

        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.epochs.append([])

    class Noting(keras.Model):
        def train_step(self, data: Any) -> Any:
            seen.epochs[-1].append(data[1]["y"] if isinstance(data[1], dict) else data[1])
            return {"loss": 0.0}

    def epochs_of(dataset: Any, epochs: int, left_out: int = 0) -> list[list[Any]]:
        model = Noting()
        model.compile(run_eagerly=True)
        model.make_train_function()
        run, left = model.train_function, iter(range(left_out))
        model.train_function = lambda iterator: run(iterator) if next(left, None) is None else {}
        seen.epochs = []
        model.fit(dataset, epochs=epochs, steps_per_epoch=steps_per_epoch, verbose=0, shuffle=False, callbacks=[seen])
        return [[batch.numpy().tolist() for batch in epoch] for epoch in seen.epochs]

    seen = Seen()
    expected = epochs_of(make(), 6)
    opened = open_share(sent(make()))
    assert opened.standing is not None
    dataset, within = opened.standing(2, min(1, len(expected[2])), steps_per_epoch)
    with _within_a_pass(TaskData(dataset, steps_per_epoch, None, seen=within)):
        received = epochs_of(dataset, 4, left_out=min(1, len(expected[2])))
    assert received == [expected[2][1:], *expected[3:]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: slices().shuffle(23, seed=3).batch(8).repeat(),
        lambda: slices().map(doubled).shuffle(23, seed=3).batch(8, drop_remainder=True).repeat(),
        lambda: slices().take(16).shuffle(16, seed=3).batch(8).repeat().prefetch(5),
        lambda: slices().take(16).shuffle(16, seed=3).repeat(4).batch(8).map(lambda x, y: (x * 2, y)),
    ],
    ids=["rest in a batch", "rest dropped", "read ahead", "repeated before batching"],
)
def test_validation_steps_read_as_far_as_one_process_does(make: Any) -> None:
    """Every validation run begins a new iteration, whose order depends on how far the one before has read."""
    dataset, steps = make(), 2
    source = sent(dataset)
    reading = Reading("validation_data", Share(0, 2), steps=steps, own_seed=1)
    readings = [reading, replace(reading, share=Share(1, 2))]
    opened = [source.open(SimpleNamespace(task="worker:0"), each) for each in readings]
    assert all(each.ends and each.dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY for each in opened)
    for _ in range(4):
        iterator = iter(dataset)
        expected = []
        for _ in range(steps):
            expected.append(np.sort(leaves(next(iterator))[1]))
            time.sleep(0.05)  # reads ahead
        del iterator
        shares = [[leaves(batch)[1] for batch in each.dataset] for each in opened]
        equal([np.sort(np.concatenate(parts)) for parts in zip(*shares, strict=True)], expected)


def test_what_has_no_seed_is_drawn_alike_from_the_jobs() -> None:
    dataset = DATASET.range(40).shuffle(40).interleave(lambda n: DATASET.range(n).shuffle(40), cycle_length=3).batch(20)
    source = sent(dataset)

    def passes(seed: int) -> list[Any]:
        opened = open_share(source, seed=seed)
        return [[batch.numpy().tolist() for batch in opened.dataset] for _ in range(2)]

    one = passes(1)
    assert one == passes(1)
    assert one != passes(2)
    assert one[0] != one[1], "shuffled anew in each pass"


def test_no_order_depends_on_time() -> None:
    options = tf.data.Options()
    options.deterministic = False

    def slow_or_not(n: Any) -> Any:
        import time

        time.sleep(0.02 * (int(n) % 3 == 0))
        return n

    mapped = DATASET.range(12).map(lambda n: tf.py_function(slow_or_not, [n], tf.int64), 4, deterministic=False)
    dataset = mapped.batch(3).with_options(options)
    received = [batch.numpy().tolist() for batch in open_share(sent(dataset)).dataset]
    assert received == np.arange(12).reshape(4, 3).tolist()


def test_a_dataset_of_tensorflow_alone_runs_no_code_of_the_callers() -> None:
    assert isinstance(sent(slices().batch(2)), PureGraphDataset)
    assert not isinstance(sent(python()), PureGraphDataset)


def test_arrays_travel_beside_the_graph() -> None:
    source = sent(DATASET.from_tensor_slices(np.zeros((1000, 100)) + np.arange(100)).batch(10))
    assert [array.shape for array in source.constants.values()] == [(1000, 100)]
    assert len(source.graph) < 10_000


def test_files_are_named_where_they_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lines").write_text("one\ntwo\nthree\n")
    source = sent(DATASET.from_tensor_slices(["lines"]).flat_map(tf.data.TextLineDataset).batch(2))
    monkeypatch.chdir("/")
    assert [batch.numpy().tolist() for batch in open_share(source).dataset] == [[b"one", b"two"], [b"three"]]
    (tmp_path / "lines").unlink()
    with pytest.raises(InvalidInput, match=rf"{tmp_path}/lines, not found by worker:0"):
        open_share(source)


class _Fails:
    def __reduce__(self) -> Any:
        raise TypeError("not to be pickled")


def refused() -> dict[str, tuple[Callable[[], Any], str]]:
    sharded = tf.data.Options()
    sharded.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.FILE
    ragged = tf.RaggedTensorSpec([None, None], tf.int64)
    return {
        "not batched": (slices, "must be batched"),
        "windows": (lambda: DATASET.range(4).window(2), "must be tensors"),
        "a generator of ragged tensors": (
            lambda: DATASET.from_generator(lambda: iter([tf.ragged.constant([[1], []])]), output_signature=ragged),
            "must consist of dense tensors of known rank.*from_generator",
        ),
        "by files": (lambda: slices().batch(2).with_options(sharded), "AUTO or DATA"),
    }


@pytest.mark.parametrize("name", refused())
def test_what_cannot_be_shared_is_refused(name: str) -> None:
    make, sentence = refused()[name]
    with pytest.raises(InvalidInput, match=sentence):
        data_of(make(), None, None, "x")
    with pytest.raises(InvalidInput, match=sentence) as raised:
        validation_of(make())
    assert raised.value.field == "validation_data"


def read_where_made() -> dict[str, tuple[Callable[[], Any], str]]:
    unpicklable = _Fails()
    numbers = iter(DATASET.range(3))
    return {
        "a generator": (
            lambda: DATASET.from_generator(lambda: iter([1]), output_signature=tf.TensorSpec([], tf.int64)).batch(1),
            "from_generator",
        ),
        "Python before a filter": (
            lambda: DATASET.range(3).filter(lambda n: tf.py_function(bool, [n], tf.bool)).batch(2),
            "determines which elements",
        ),
        "not to be pickled": (
            lambda: (
                DATASET.range(3)
                .map(lambda n: tf.ensure_shape(tf.numpy_function(lambda n: (unpicklable, n)[1], [n], n.dtype), []))
                .batch(2)
            ),
            "cannot be pickled: not to be pickled",
        ),
        "an iterator": (
            lambda: DATASET.range(3).map(lambda n: n + next(numbers)).batch(2),
            "an object of that process",
        ),
        "a cache in files": (lambda: slices().cache("somewhere").batch(2), "files of its cache"),
        "a snapshot": (lambda: slices().snapshot("somewhere").batch(2), "files of snapshot"),
        "draws on batches": (
            lambda: slices().batch(2).map(lambda x, y: (x + tf.random.normal([]), y)),
            "without a seed",
        ),
        "draws before a filter": (
            lambda: slices().filter(lambda x, y: tf.random.uniform([]) > 0.5).batch(2),
            "without a seed",
        ),
    }


@pytest.mark.parametrize("name", read_where_made())
def test_what_tasks_would_read_otherwise_is_read_where_it_was_made(name: str) -> None:
    make, why = read_where_made()[name]
    source = data_of(make(), None, None, "x")
    assert isinstance(source, FedDataset) and re.search(why, source.why)
    travelled = unpack(pack(source))
    assert type(travelled) is FedDataset and travelled.feed is None
    assert (travelled.why, travelled.leaves, travelled.secret) == (source.why, source.leaves, source.secret)
    anew = source.anew()
    assert isinstance(anew, FedDataset) and anew.secret != source.secret and anew.feed is not source.feed


def test_labels_are_in_the_dataset() -> None:
    with pytest.raises(InvalidInput, match="`y` must be contained in the dataset"):
        data_of(slices().batch(2), Y, None, "x")


def test_a_dataset_is_on_the_cpu_of_a_task_with_a_gpu() -> None:
    """A second CPU device stands in for a GPU, on which TensorFlow would end the process with SIGSEGV."""

    def devices(ctx: Any) -> list[str]:
        divide_cpu(2)
        with tf.device("/device:CPU:1"):
            parts = open_share(sent(slices().map(doubled).batch(4))).dataset
            return [parts._variant_tensor.device, iter(parts)._iterator_resource.device]

    (found,) = run_gang(1, devices)
    assert [device.rpartition("/")[2] for device in found] == ["device:CPU:0", "device:CPU:0"]
