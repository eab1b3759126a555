"""Tests of the warning of a ``train_step`` that clips its share's gradients, even if nothing is clipped at first."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_dtf.schema.strategy import AllReduce, InGraph, ParameterServer

from ..gang import FakeContext, run_gang
from .cases import digits
from .comparison import fit

TITLE = "Gradients are clipped before they are averaged"


def model(clip: str) -> Any:
    """Return a model whose outputs are clipped by value, and whose gradients are clipped as ``clip`` says."""
    import keras
    import tensorflow as tf

    class Clipping(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(3)

        def call(self, x: Any) -> Any:
            return tf.clip_by_value(self.dense(x), -50.0, 50.0)

        def train_step(self, data: Any) -> Any:
            x, y = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(x, y, self(x, training=True))
            grads = tape.gradient(loss, self.trainable_variables)
            if clip == "global norm":
                grads, _ = tf.clip_by_global_norm([0.5 * grad for grad in grads], 100.0)
            elif clip == "norm":
                grads = [tf.clip_by_norm(grad, 100.0) for grad in grads]
            elif clip == "value":
                grads = [keras.ops.clip(grad, -100.0, 100.0) for grad in grads]
            self.optimizer.apply_gradients(zip(grads, self.trainable_variables, strict=True))
            return {"loss": loss}

    keras.utils.set_random_seed(3)
    made = Clipping()
    optimizer = keras.optimizers.SGD(0.1, clipnorm=0.01) if clip == "optimizer" else keras.optimizers.SGD(0.1)
    made.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return made


CLIPS = {
    "none": "",
    "optimizer": "",
    "global norm": "clip_by_global_norm",
    "norm": "clip_by_norm",
    "value": "clip_by_value",
}


def told(ctx: FakeContext, clip: str, **arguments: Any) -> list[str]:
    x, y = digits(24)
    here, _ = fit(ctx, clip.replace(" ", "_"), model(clip), x, y, batch_size=12, epochs=1, **arguments)
    return [text for _, title, text in here.notes if title == TITLE]


def check(found: list[list[str]]) -> None:
    for (clip, name), texts in zip(CLIPS.items(), found, strict=True):
        assert len(texts) == bool(name), clip
        assert all(f"train_step of Clipping clips gradients ({name})" in text for text in texts)


@pytest.mark.parametrize("strategy", [AllReduce(), ParameterServer(sync=True)], ids=lambda each: type(each).__name__)
def test_over_tasks(strategy: Any) -> None:
    servers = int(isinstance(strategy, ParameterServer))

    def program(ctx: FakeContext) -> Any:
        return [told(ctx, clip, strategy=strategy) for clip in CLIPS]

    results = run_gang(2 + servers, program, servers=servers)
    check(results[0])
    assert not any(results[1])


def test_on_replicas() -> None:
    def program(ctx: FakeContext) -> Any:
        import tensorflow as tf

        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        return [told(ctx, clip, strategy=InGraph()) for clip in CLIPS]

    (found,) = run_gang(1, program)
    check(found)


def test_it_can_be_turned_off() -> None:
    results = run_gang(2, lambda ctx: told(ctx, "norm", check=False))
    assert not any(results)
