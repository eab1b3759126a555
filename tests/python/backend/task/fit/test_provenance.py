"""Tests of determining which tensors of a graph depend on the batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..gang import FakeContext, run_gang


def _shared() -> dict[str, Callable[[Any, Any], Any]]:
    """Return functions whose indices are the same on every task, for words of shape (examples, length)."""
    import tensorflow as tf
    from keras import ops

    @tf.function(autograph=False)
    def inside(length: Any) -> Any:
        return tf.range(length)

    return {
        "constant": lambda x, h: tf.range(4),
        "length": lambda x, h: tf.range(tf.shape(x)[1]),
        "length, from the end": lambda x, h: ops.arange(ops.shape(x)[-1]),
        "length of a hidden layer": lambda x, h: tf.range(tf.shape(tf.nn.relu(h @ tf.ones([3, 3])))[1]),
        "length by einsum": lambda x, h: tf.range(tf.shape(tf.einsum("btd,dnh->btnh", h, tf.ones([3, 2, 2])))[1]),
        "length by unstack": lambda x, h: tf.range(tf.unstack(tf.shape(x))[1]),
        "length by split": lambda x, h: tf.range(tf.split(tf.shape(x), 2)[1][0]),
        "length by gather": lambda x, h: tf.range(tf.gather(tf.shape(x), 1)),
        "length after turning": lambda x, h: tf.range(tf.shape(tf.transpose(x))[0]),
        "as many as in a sentence": lambda x, h: tf.cumsum(tf.ones_like(x[0])) - 1,
        "a row of them": lambda x, h: tf.expand_dims(tf.range(tf.shape(x)[1]), 0),
        "filled": lambda x, h: tf.fill([tf.shape(x)[1], 2], 1),
        "in a function": lambda x, h: inside(tf.shape(x)[1]),
        "in a branch": lambda x, h: tf.cond(tf.constant(True), lambda: tf.range(3), lambda: tf.range(3) + 1),
        "cut": lambda x, h: tf.range(10)[: tf.shape(x)[1]],
    }


def _by_example() -> dict[str, Callable[[Any, Any], Any]]:
    import tensorflow as tf

    return {
        "words": lambda x, h: x,
        "words, cast": lambda x, h: tf.cast(x, tf.int64) + 1,
        "examples": lambda x, h: tf.range(tf.shape(x)[0]),
        "examples of a hidden layer": lambda x, h: tf.range(
            tf.shape(tf.einsum("btd,dnh->btnh", h, tf.ones([3, 2, 2])))[0]
        ),
        "size": lambda x, h: tf.range(tf.size(x)),
        "for each example": lambda x, h: tf.ones_like(x) * tf.range(tf.shape(x)[1]),
        "tiled": lambda x, h: tf.tile(tf.range(3)[None], [tf.shape(x)[0], 1]),
        "broadcast": lambda x, h: tf.broadcast_to(tf.range(tf.shape(x)[1]), tf.shape(x)),
        "what is left": lambda x, h: tf.range(tf.shape(tf.reshape(h, [-1, 3]))[0]),
        "first sentence": lambda x, h: x[0],
        "counted": lambda x, h: tf.range(tf.reduce_sum(tf.ones_like(x))),
        "random": lambda x, h: tf.random.uniform([3], 0, 4, tf.int32),
        "in a branch": lambda x, h: tf.cond(x[0, 0] > 0, lambda: tf.range(3), lambda: tf.range(3) + 1),
        "by Python": lambda x, h: tf.numpy_function(lambda v: v[0], [x], tf.int32),
        "where distinct words are": lambda x, h: tf.unique(tf.reshape(x, [-1])).idx,
        "distinct words, twice": lambda x, h: tf.tile(tf.unique(tf.reshape(x, [-1])).y, [2]),
    }


def _distinct() -> dict[str, Callable[[Any, Any], Any]]:
    """Return functions whose indices are those of the batch, each once."""
    import tensorflow as tf

    @tf.function(autograph=False)
    def inside(x: Any) -> Any:
        return tf.unique(tf.reshape(x, [-1])).y

    def words(x: Any) -> Any:
        return tf.unique(tf.reshape(x, [-1])).y

    return {
        "words": lambda x, h: words(x),
        "words, counted": lambda x, h: tf.unique_with_counts(tf.reshape(x, [-1])).y,
        "words, sorted": lambda x, h: tf.sort(words(x)),
        "words, cast": lambda x, h: tf.cast(words(x), tf.int64) + 1,
        "words, in a function": lambda x, h: inside(x),
        "words without padding": lambda x, h: tf.unique(tf.boolean_mask(x, x > 0)).y,
    }


def test_lookups_are_told_apart() -> None:
    def program(ctx: FakeContext) -> dict[str, str]:
        import tensorflow as tf

        from jupyter_dtf.backend.task.fit.provenance import Provenance

        found = {}

        def look(name: str, indices: Callable[[Any, Any], Any], x: Any) -> None:
            hidden = tf.gather(tf.ones([9, 3]), x)
            (found[name],) = {sharing.name for _, sharing in Provenance((x, None)).parts(indices(x, hidden))}

        for kind, given in (("BY_POSITION", _shared()), ("NONE", _by_example()), ("BY_INDEX", _distinct())):
            for name, indices in given.items():
                step = tf.function(partial(look, f"{kind}: {name}", indices), autograph=False)
                step.get_concrete_function(tf.TensorSpec([None, None], tf.int32))
        return found

    found = run_gang(1, program)[0]
    assert len(found) == 37
    assert {name: name.partition(":")[0] for name in found} == found


def test_the_parts_of_several_lookups_are_told_apart() -> None:
    def program(ctx: FakeContext) -> list[str]:
        import tensorflow as tf

        from jupyter_dtf.backend.task.fit.provenance import Provenance

        table = tf.Variable(tf.ones([9, 2]))
        found: list[str] = []

        @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)], autograph=False)
        def step(x: Any) -> None:
            with tf.GradientTape() as tape:
                used = tf.reduce_sum(tf.gather(table, x)) + tf.reduce_sum(tf.gather(table, tf.range(tf.shape(x)[1])))
                used += tf.reduce_sum(tf.gather(table, tf.constant([1, 2], tf.int64)))
            gradient = tape.gradient(used, table)
            found.extend(sharing.name for _, sharing in Provenance(x).parts(gradient.indices))

        step.get_concrete_function()
        return found

    assert sorted(run_gang(1, program)[0]) == ["BY_POSITION", "BY_POSITION", "NONE"]
