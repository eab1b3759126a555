"""N tasks against one plain Keras process: the same weights after every step, the same history."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from ..gang import FakeContext, run_gang
from .cases import CASES, Case

pytestmark = pytest.mark.timeout(180)


class Recorded:
    """What a run of a case left behind: weights after every step, the history, what the callbacks recorded."""

    def __init__(self, steps: list[list[Any]], final: list[Any], history: dict[str, list[float]], **more: Any) -> None:
        self.steps = steps
        self.final = final
        self.history = history
        self.more = more


def _recorder() -> Any:
    import keras

    class Recorder(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.steps: list[list[Any]] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.steps.append(self.model.get_weights())

    return Recorder()


def plain(names: list[str]) -> Any:
    """Every case in one Keras process, nothing of ours about."""

    def program(ctx: FakeContext) -> dict[str, Recorded]:
        import keras

        results = {}
        for name in names:
            case = CASES[name]
            keras.utils.set_random_seed(7)
            model = case.model()
            if not model.built:
                model(case.fit["x"][:1])
            recorder = _recorder()
            arguments = {**case.fit, "shuffle": False, "verbose": 0, "callbacks": [*case.callbacks(), recorder]}
            history = model.fit(**arguments).history
            results[name] = Recorded(recorder.steps, model.get_weights(), history)
        return results

    return program


def distributed(names: list[str], transport: str = "auto") -> Any:
    """Every case by ``fit``; each task is its own client, as it would prepare the job for all."""

    def program(ctx: FakeContext) -> dict[str, Any]:

        import jupyter_dtf.notebook.fit as client
        from jupyter_dtf.schema.strategy import AllReduce

        results: dict[str, Any] = {}
        for index, name in enumerate(names):
            case = CASES[name]
            source: Any = partial(_seeded, name)
            if transport != "ring" and name != "two optimizers":
                # TensorFlow must not have run anything before collectives; the other's class cannot be rebuilt.
                source = source()
                if ctx.rank % 2 == 0 and not source.built:
                    source(case.fit["x"][:1])
            recorder = _recorder()
            random.seed(index)
            job = client.prepare(
                source,
                **{**case.fit, "shuffle": False, "callbacks": [*case.callbacks(), recorder]},
                strategy=AllReduce(transport=transport),
            )
            program, arguments, _ = pickle.loads(_pickled(job.program))
            here = dataclasses.replace(ctx, shared_dir=ctx.shared_dir / str(index), points=[], notes=[], epochs=[])
            here.shared_dir.mkdir(exist_ok=True)
            try:
                result = program(*arguments, here)
            except Exception as error:
                raise RuntimeError(f"in the case {name!r}: {error}") from error
            if result is None:
                results[name] = here
                continue
            job.finish(pickle.loads(_pickled(result)))
            results[name] = Recorded(recorder.steps, job.model.get_weights(), job.model.history.history, ctx=here)
        return results

    return program


def _seeded(name: str) -> Any:
    import keras

    keras.utils.set_random_seed(7)
    return CASES[name].model()


def _pickled(value: Any) -> bytes:
    import cloudpickle

    return bytes(cloudpickle.dumps(value))


def _distance(a: Any, b: Any) -> float:
    return float(np.max(np.abs(a - b), initial=0.0) / max(np.max(np.abs(b), initial=0.0), 1e-3))


@pytest.fixture(scope="module")
def reference() -> dict[str, Recorded]:
    results: dict[str, Recorded] = run_gang(1, plain(list(CASES)))[0]
    return results


@pytest.fixture(scope="module")
def trained() -> Callable[[int], list[dict[str, Any]]]:
    @cache
    def results(size: int) -> list[dict[str, Any]]:
        return run_gang(size, distributed([name for name, case in CASES.items() if size in case.sizes]))

    return results


@pytest.mark.parametrize(("name", "size"), [(name, size) for name, case in CASES.items() for size in case.sizes])
def test_tasks_do_what_one_process_does(
    name: str, size: int, trained: Callable[[int], list[dict[str, Any]]], reference: dict[str, Recorded]
) -> None:
    results = trained(size)
    case, expected, received = CASES[name], reference[name], results[0][name]
    _compare(case, expected, received)
    for other in results[1:]:
        assert [level for level, *_ in other[name].notes if level != "info"] == []
        assert [point[0] for point in other[name].points] == [
            step for step, values in received.more["ctx"].points if "learning_rate" in values
        ]


@pytest.mark.parametrize(("name", "size"), [("one example in the last batch", 3), ("masked sequences, embedding", 2)])
def test_the_ring_does_the_same(name: str, size: int, reference: dict[str, Recorded]) -> None:
    results = run_gang(size, distributed([name], "ring"))  # collectives are set up once in the life of a process
    _compare(CASES[name], reference[name], results[0][name])


def _compare(case: Case, expected: Recorded, received: Recorded) -> None:
    assert len(received.steps) == len(expected.steps)
    for step, (ours, theirs) in enumerate(zip(received.steps, expected.steps, strict=True)):
        distances = [_distance(a, b) for a, b in zip(ours, theirs, strict=True)]
        assert max(distances) <= case.tolerance, f"after step {step}"
    assert max(_distance(a, b) for a, b in zip(received.final, expected.final, strict=True)) <= case.tolerance
    assert len(expected.steps) and not all(
        np.array_equal(a, b) for a, b in zip(expected.steps[0], expected.final, strict=True)
    )
    assert list(received.history) == list(expected.history)
    if case.same_history:
        for metric, values in expected.history.items():
            np.testing.assert_allclose(
                received.history[metric], values, rtol=case.metric_tolerance, atol=case.metric_tolerance, err_msg=metric
            )
