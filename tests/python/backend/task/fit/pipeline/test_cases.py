"""Tests of models placed on two tasks, compared with one plain Keras process after every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jupyter_dtf.errors import InvalidInput

from ...gang import FakeContext, run_gang
from .. import cases
from ..cases import Case
from ..comparison import Recorded, _recorder, _seeded, alone, compare
from ..outside_cases import CALLBACK_CASES
from .placed import fit, fit_by_one_client

CASES = {**cases.CASES, **CALLBACK_CASES}

REFUSED = {
    "run eagerly": "run_eagerly=True",
    "ragged": "dense tensors for a pipeline, got RaggedTensorSpec",
}
CHOSEN = [
    "momentum and clipping",
    "sample weights",
    "sum over examples, weights regularized",
    "masked sequences, embedding",
    "several inputs and outputs",
    "weights for one of two outputs",
    "steps per epoch, the last fewer",
    "subclassed, not built",
    "moving average of the weights",
    "early stopping",
    "many metrics",
    "own train_step",
    "gradients accumulated",
    "mixed float16",
    "mixed bfloat16",
    "float64 weights",
    "metrics that are reset after a batch",
    *(name for name in ("activity regularizer",) if name in CASES),
]


def case(ctx: FakeContext, name: str, fit: Callable[..., Any] = fit_by_one_client) -> Recorded | None:
    recorder = _recorder()
    chosen: Case = CASES[name]

    def model() -> Any:
        made = _seeded(chosen)
        if not made.built:
            made(chosen.fit["x"][:1])
        return made

    arguments = {**chosen.fit, "shuffle": False, "callbacks": [*chosen.callbacks(), recorder]}
    job, here = fit(ctx, model, microbatches=3, **arguments)
    return here and Recorded(recorder.steps, job.model.get_weights(), job.model.history.history, ctx=here)


def ragged(ctx: FakeContext) -> None:
    import tensorflow as tf

    def data(ctx: Any) -> Any:
        rows = tf.ragged.constant([[1.0, 2.0], [3.0]] * 6)
        return tf.data.Dataset.from_tensor_slices((rows, tf.zeros([12]))).batch(4)

    fit(ctx, _seeded(CASES["momentum and clipping"]), data)


def every_case(ctx: FakeContext) -> tuple[dict[str, Any], dict[str, str]]:
    refusals = {}
    for name in REFUSED if ctx.is_chief else ():
        with pytest.raises(InvalidInput) as raised:
            ragged(ctx) if name == "ragged" else case(ctx, name, lambda ctx, make, **more: fit(ctx, make(), **more))
        refusals[name] = str(raised.value)
    return {name: case(ctx, name) for name in CHOSEN}, refusals


@pytest.fixture(scope="module")
def reference() -> dict[str, Recorded]:
    return alone({name: CASES[name] for name in CHOSEN})


@pytest.fixture(scope="module")
def pipelined() -> tuple[dict[str, Any], dict[str, str]]:
    (chief, _) = run_gang(2, every_case)
    return chief[0], chief[1]


@pytest.mark.parametrize("name", CHOSEN)
def test_weights_follow_one_process(
    name: str, reference: dict[str, Recorded], pipelined: tuple[dict[str, Any], dict[str, str]]
) -> None:
    compare(CASES[name], reference[name], pipelined[0][name])


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_pipelined_is_refused(name: str, pipelined: tuple[dict[str, Any], dict[str, str]]) -> None:
    assert REFUSED[name] in pipelined[1][name]
