"""``DistributedOptimizer`` and ``DistributedGradientTape`` on two tasks train as one process on the global batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ..backend.task.gang import FakeContext, run_gang
from .tasks import begin, dense, embedding, numbers, shares, words


@dataclass
class Case:
    """``optimizer`` trains ``model`` on ``data``; ``options`` are DistributedOptimizer's."""

    optimizer: Callable[[], Any]
    options: dict[str, Any] = field(default_factory=dict)
    model: Callable[[], Any] = dense
    data: Callable[[], tuple[Any, Any]] = numbers
    tolerance: float = 2e-6
    passes: int = 1
    reference: Callable[[], Any] | None = None
    """The optimizer of the single process, if it is a different one."""


def _optimizer(name: str, **arguments: Any) -> Callable[[], Any]:
    def make() -> Any:
        import keras

        return getattr(keras.optimizers, name)(**arguments)

    return make


CASES = {
    "sgd": Case(_optimizer("SGD", learning_rate=0.1)),
    "momentum, clipped": Case(_optimizer("SGD", learning_rate=0.1, momentum=0.9, global_clipnorm=0.5)),
    "adam": Case(_optimizer("Adam", learning_rate=0.01)),
    "predivided": Case(_optimizer("SGD", learning_rate=0.1), {"gradient_predivide_factor": 2.0}),
    "three groups": Case(_optimizer("SGD", learning_rate=0.1), {"groups": 3}),
    "sum": Case(_optimizer("SGD", learning_rate=0.1), {"op": "sum"}, reference=_optimizer("SGD", learning_rate=0.2)),
    "half precision": Case(_optimizer("SGD", learning_rate=0.1), {"compression": "fp16"}, tolerance=1e-3),
    "brain floats": Case(_optimizer("SGD", learning_rate=0.1), {"compression": "bf16"}, tolerance=1e-2),
    "two passes, averaged": Case(
        _optimizer("SGD", learning_rate=0.1, momentum=0.9),
        {"backward_passes_per_step": 2, "average_aggregated_gradients": True},
        passes=2,
    ),
    "two passes, summed": Case(
        _optimizer("SGD", learning_rate=0.1),
        {"backward_passes_per_step": 2},
        passes=2,
        reference=_optimizer("SGD", learning_rate=0.2),
    ),
    "embedding": Case(_optimizer("Adam", learning_rate=0.01), model=embedding, data=words),
    "embedding, dense": Case(
        _optimizer("SGD", learning_rate=0.5), {"sparse_as_dense": True}, model=embedding, data=words
    ),
}


def trained(ctx: FakeContext) -> dict[str, list[Any]]:
    """Return the final weights of every case, trained by plain Keras on one task, or by a distributed optimizer."""
    import keras

    hvd = begin(ctx)
    weights = {}
    for name, case in CASES.items():
        keras.utils.set_random_seed(7)
        model, (x, y) = case.model(), case.data()
        if ctx.size == 1:
            optimizer, batch = (case.reference or case.optimizer)(), 16 * case.passes
        else:
            optimizer, batch = hvd.DistributedOptimizer(case.optimizer(), **case.options), 16
        model.compile(optimizer, "sparse_categorical_crossentropy")
        x, y = (np.concatenate(shares(data, ctx.rank, ctx.size, batch)) for data in (x, y))
        model.fit(x, y, batch_size=batch // ctx.size, epochs=2, shuffle=False, verbose=0)
        weights[name] = model.get_weights()
    return weights


@pytest.fixture(scope="module")
def everyones() -> tuple[dict[str, list[Any]], list[dict[str, list[Any]]]]:
    """Return the weights of one process, and of two tasks."""
    (one,) = run_gang(1, trained)
    return one, run_gang(2, trained)


@pytest.mark.parametrize("name", CASES)
def test_as_one_process_on_the_global_batch(name: str, everyones: Any) -> None:
    one, (first, second) = everyones
    for expected, found, other in zip(one[name], first[name], second[name], strict=True):
        assert np.array_equal(found, other)
        assert np.abs(found - expected).max() <= CASES[name].tolerance * max(1.0, np.abs(expected).max())


def _trained_by_tape(ctx: FakeContext) -> Any:
    import keras
    import tensorflow as tf

    hvd = begin(ctx)
    keras.utils.set_random_seed(7)
    model, optimizer, loss = dense(), keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy()

    @tf.function
    def step(x: Any, y: Any) -> None:
        with tf.GradientTape() as tape:
            value = loss(y, model(x))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(value, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    x, y = numbers()
    for batch in zip(shares(x, ctx.rank, ctx.size), shares(y, ctx.rank, ctx.size), strict=True):
        step(*batch)
    return model.get_weights()


def _on_two_machines(ctx: FakeContext) -> Any:
    return _trained_by_tape(dataclasses.replace(ctx, machines=["a", "b"]))


def test_tape_as_one_process_on_the_global_batch() -> None:
    (one,) = run_gang(1, _trained_by_tape)
    _check(one, *run_gang(2, _trained_by_tape))
    _check(one, *run_gang(2, _on_two_machines))


def _check(one: list[Any], first: list[Any], second: list[Any]) -> None:
    for expected, found, other in zip(one, first, second, strict=True):
        assert np.array_equal(found, other)
        assert np.abs(found - expected).max() <= 2e-6


def _details(ctx: FakeContext) -> dict[str, Any]:
    import keras
    import tensorflow as tf

    hvd = begin(ctx)
    found: dict[str, Any] = {}
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    mine = float(ctx.rank + 1)

    plain = tf.GradientTape(persistent=True)
    with hvd.DistributedGradientTape(plain) as tape:
        target = mine * tf.reduce_sum(v) + mine * w
    found["structure"] = tape.gradient(target, {"v": v, "w": [w]})
    found["one"] = tape.gradient(target, w)
    tape.register_local_source(w)
    found["local"] = tape.gradient(target, [v, w])
    found["pairs"] = [[g for _, g in pairs] for pairs in tape.get_local_and_global_gradients(target, [v, w])]
    found["sum"] = hvd.DistributedGradientTape(plain, op=hvd.Sum).gradient(target, [w, tf.Variable(0.0)])

    model = dense()
    local = model.layers[-1]
    optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(1.0), local_layers=local)
    before = model.get_weights()
    optimizer.apply([tf.fill(v.shape, mine) for v in model.trainable_variables], model.trainable_variables)
    found["partial"] = [float((b - a).mean()) for b, a in zip(before, model.get_weights(), strict=True)]

    optimizer = hvd.DistributedOptimizer(hvd.DistributedOptimizer(keras.optimizers.SGD(1.0, name="mine"), op=hvd.Sum))
    w.assign(3.0)
    optimizer.apply([tf.constant(mine)], [w])
    found["twice"] = 3.0 - w.numpy()
    found["class"] = type(optimizer) is keras.optimizers.SGD and optimizer.get_config()["name"]
    return {name: tf.nest.map_structure(lambda t: t.numpy() if tf.is_tensor(t) else t, f) for name, f in found.items()}


def test_details() -> None:
    for rank, found in enumerate(run_gang(2, _details)):
        assert found["structure"]["v"].tolist() == [1.5, 1.5]
        assert found["structure"]["w"] == [1.5]
        assert found["one"] == 1.5
        assert found["local"][0].tolist() == [1.5, 1.5]
        assert found["local"][1] == (rank + 1) / 2  # this task's own, divided by the number of tasks
        assert found["pairs"][0] == [(rank + 1) / 2]
        assert len(found["pairs"][1]) == 1
        assert found["sum"] == [3.0, None]
        assert found["partial"] == pytest.approx([1.5, 1.5, (rank + 1) / 2, (rank + 1) / 2])
        assert found["twice"] == 1.5  # only the options of the second call apply
        assert found["class"] == "mine"


def _overflows(ctx: FakeContext) -> Any:
    """Train with mixed precision. The gradients of one task overflow in the second of three steps."""
    import keras
    import tensorflow as tf

    hvd = begin(ctx)
    keras.utils.set_random_seed(7)
    keras.config.set_dtype_policy("mixed_float16")
    model = dense()
    sgd = keras.optimizers.SGD(0.1)
    model.compile(hvd.DistributedOptimizer(sgd), "sparse_categorical_crossentropy", jit_compile=True)
    assert not model.jit_compile  # XLA cannot compile what leaves TensorFlow's graph
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    x, y = numbers(48)
    scales = []
    for step, (mine, labels) in enumerate(
        zip(shares(x, ctx.rank, ctx.size), shares(y, ctx.rank, ctx.size), strict=True)
    ):
        weight = np.full(len(labels), np.inf if step == 1 and ctx.rank == 1 else 1.0)
        model.train_on_batch(mine, labels, sample_weight=weight)
        scales.append(float(model.optimizer.dynamic_scale.numpy()))
    return scales, [tf.cast(w, tf.float32).numpy() for w in model.trainable_variables]


def test_tasks_agree_on_an_overflow() -> None:
    (scales, weights), (other_scales, other_weights) = run_gang(2, _overflows)
    assert scales == other_scales
    assert scales[1] == scales[0] / 2 == scales[2]
    for one, other in zip(weights, other_weights, strict=True):
        assert np.array_equal(one, other)
        assert np.isfinite(one).all()


def _refusals(ctx: FakeContext) -> list[str]:
    import keras
    import tensorflow as tf

    from jupyter_dtf.errors import InvalidInput

    hvd = begin(ctx)
    sgd = keras.optimizers.SGD()
    bad: list[Callable[[], Any]] = [
        lambda: hvd.DistributedOptimizer(tf.Module()),
        lambda: hvd.DistributedOptimizer(sgd, op=hvd.Adasum),
        lambda: hvd.DistributedOptimizer(sgd, op=hvd.Min),
        lambda: hvd.DistributedOptimizer(sgd, compression=object()),
        lambda: hvd.DistributedOptimizer(sgd, op=hvd.Sum, gradient_predivide_factor=2.0),
        lambda: hvd.DistributedOptimizer(sgd, groups=0),
        lambda: hvd.DistributedOptimizer(sgd, backward_passes_per_step=0),
        lambda: hvd.PartialDistributedOptimizer(sgd, local_layers=[sgd]),
    ]
    said = []
    for call in bad:
        with pytest.raises(InvalidInput) as error:
            call()
        said.append(str(error.value))
    return said


def test_what_is_refused() -> None:
    (said,) = run_gang(1, _refusals)
    rules = [
        "Keras 3",
        "Adasum",
        "hvd.Average or hvd.Sum",
        "compression",
        "unless op is hvd.Average",
        "groups",
        "must be an integer >= 1",
        "layers",
    ]
    for rule, text in zip(rules, said, strict=True):
        assert rule in text
        assert ", got " in text
