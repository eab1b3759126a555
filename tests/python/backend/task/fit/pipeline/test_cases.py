"""Models laid over two tasks against one plain Keras process, step by step."""

from __future__ import annotations

from typing import Any

import pytest

from ...gang import FakeContext, run_gang
from ..cases import CASES, Case
from ..comparison import Recorded, _recorder, _seeded, compare, plain
from .placed import fit

pytestmark = pytest.mark.timeout(180)

REFUSED = {
    "own train_step": "overrides it",
    "gradients accumulated": "gradient_accumulation_steps=2",
    "mixed float16": "LossScaleOptimizer",
}
CHOSEN = [name for name in CASES if name not in (*REFUSED, "two optimizers", "steps per execution")]


def case(ctx: FakeContext, name: str) -> Recorded | None:
    recorder = _recorder()
    chosen: Case = CASES[name]
    model = _seeded(chosen)
    if not model.built:
        model(chosen.fit["x"][:1])
    arguments = {**chosen.fit, "shuffle": False, "callbacks": [*chosen.callbacks(), recorder]}
    job, here = fit(ctx, model, **arguments)
    return here and Recorded(recorder.steps, job.model.get_weights(), job.model.history.history, ctx=here)


def every_case(ctx: FakeContext) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name in CHOSEN:
        try:
            results[name] = case(ctx, name)
        except Exception as error:
            results[name] = error
    for name in REFUSED:
        try:
            results[name] = case(ctx, name)
        except Exception as error:
            results[name] = str(error)
    return results


@pytest.fixture(scope="module")
def reference() -> dict[str, Recorded]:
    results: dict[str, Recorded] = run_gang(1, plain({name: CASES[name] for name in CHOSEN}))[0]
    return results


@pytest.fixture(scope="module")
def pipelined() -> dict[str, Any]:
    results, _ = run_gang(2, every_case)
    return dict(results)


@pytest.mark.parametrize("name", CHOSEN)
def test_weights_follow_one_process(name: str, reference: dict[str, Recorded], pipelined: dict[str, Any]) -> None:
    if isinstance(pipelined[name], Exception):
        raise pipelined[name]
    compare(CASES[name], reference[name], pipelined[name])


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_pipelined_is_refused(name: str, pipelined: dict[str, Any]) -> None:
    assert REFUSED[name] in pipelined[name]
