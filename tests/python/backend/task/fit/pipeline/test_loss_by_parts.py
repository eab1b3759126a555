"""Tests of which losses are sums of their microbatches' parts, and of the note about the order of microbatches."""

from __future__ import annotations

from typing import Any

from jupyter_dtf.backend.task.fit.pipeline.loss_by_parts import takes_turns

from ...gang import FakeContext, run_gang
from ..cases import digits
from .placed import fit


def compiled(loss: Any, *layers: Any) -> Any:
    import keras

    model = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", loss)
    return model


def test_means_and_sums_over_examples_can_be_taken_apart() -> None:
    from keras import losses

    for loss in (
        *("mse", "sparse_categorical_crossentropy", "kl_divergence", losses.mean_absolute_error),
        losses.Huber(delta=0.3, reduction="sum"),
        losses.CategoricalCrossentropy(label_smoothing=0.1),
        losses.CosineSimilarity(),
    ):
        assert takes_turns(compiled(loss)), loss


def test_what_looks_at_several_examples_at_once_cannot() -> None:
    from keras import layers, losses, ops

    class Own(losses.MeanSquaredError):
        def call(self, y_true: Any, y_pred: Any) -> Any:
            return ops.square(y_pred - ops.mean(y_pred))

    for loss in (
        *("hinge", losses.Dice(), losses.Circle(), losses.CosineSimilarity(axis=0), Own()),
        losses.MeanSquaredError(reduction="mean_with_sample_weight"),
        losses.MeanSquaredError(reduction=None),
        losses.SparseCategoricalCrossentropy(ignore_class=0),
        lambda y_true, y_pred: ops.mean(y_pred),
    ):
        assert not takes_turns(compiled(loss)), loss
    assert not takes_turns(compiled("mse", layers.Masking()))


def orders(ctx: FakeContext) -> list[str]:
    x, y = digits(24)
    said = []
    for loss in ("sparse_categorical_crossentropy", "hinge"):
        _, here = fit(ctx, compiled(loss), x, y if loss != "hinge" else y[:, None], microbatches=2, batch_size=12)
        if here is not None:
            said += [text for _, title, text in here.notes if title == "The order of microbatches"]
    _, here = fit(
        ctx, compiled("sparse_categorical_crossentropy"), x, y, microbatches=2, batch_size=12, schedule="fill_drain"
    )
    if here is not None:
        assert not any(title == "The order of microbatches" for _, title, _ in here.notes)
    return said


def test_a_run_says_in_which_order_its_microbatches_go() -> None:
    (turns, filled), _ = run_gang(2, orders)
    assert turns == "Each stage alternates between one forward and one backward pass"
    assert filled.startswith("All forward passes precede the first backward pass. hinge uses several examples")
