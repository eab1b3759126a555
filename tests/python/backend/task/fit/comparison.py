"""Trains cases with N tasks and in one plain Keras process, and compares the results."""

from __future__ import annotations

import dataclasses
import pickle
import random
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from ....once import each
from ..gang import FakeContext, run_gang
from .cases import Case


class Recorded:
    """What is recorded of a case's training run: the weights after every step and at the end, the history, ``more``."""

    def __init__(self, steps: list[list[Any]], final: list[Any], history: dict[str, list[float]], **more: Any) -> None:
        self.steps = steps
        self.final = final
        self.history = history
        self.more = more


def selected(request: pytest.FixtureRequest, size: int = 2) -> set[tuple[str, int]]:
    """Return the cases and numbers of tasks that the selected tests with the requesting fixture have as parameters.

    ``size`` is the number of tasks of a test that has only the parameter ``name``.
    """
    found = set()
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec"):
            given: dict[str, Any] = item.callspec.params
            if request.fixturename in item.fixturenames and "name" in given:
                found.add((str(given["name"]), int(given.get("size", size))))
    return found


class Trained:
    """The results of cases in one process and with several tasks. A group of cases is trained when the first of them is
    requested.

    ``wanted``: the cases, with their numbers of tasks, that tests will certainly request (``selected``). Any other case
    is trained alone when it is requested.
    """

    _GROUP = 7  # a gang has to finish within the time limit of a test

    def __init__(self, cases: Mapping[str, Case], wanted: Collection[tuple[str, int]]) -> None:
        self._cases = cases
        self._wanted = wanted
        self._expected: dict[tuple[str, int], Recorded] = {}
        self._received: dict[tuple[str, int], list[Any]] = {}

    def __call__(self, name: str, size: int) -> tuple[Recorded, list[Any]]:
        """Return the result of a case in one process, and the results of ``size`` tasks in rank order."""
        if (name, size) not in self._received:
            together = [other for other in self._cases if (other, size) in self._wanted]
            self._train(together if name in together else [name], name, size)
        return self._expected[self._key(name, size)], self._received[name, size]

    def _train(self, names: list[str], name: str, size: int) -> None:
        first = names.index(name) // self._GROUP * self._GROUP
        group = {other: self._cases[other] for other in names[first : first + self._GROUP]}
        missing = {other: case for other, case in group.items() if self._key(other, size) not in self._expected}
        for count in {self._key(other, size)[1] for other in missing}:
            chosen = {other: case for other, case in missing.items() if self._key(other, size)[1] == count}
            for other, recorded in alone(chosen, count).items():
                self._expected[other, count] = recorded
        tasks = run_gang(size, distributed(group))
        for other in group:
            self._received[other, size] = [task[other] for task in tasks]

    def _key(self, name: str, size: int) -> tuple[str, int]:
        case = self._cases[name]
        return name, size if case.plain_model or case.plain_callbacks else 1


def _recorder() -> Any:
    import keras

    class Recorder(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.steps: list[list[Any]] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.steps.append(self.model.get_weights())

    return Recorder()


def alone(cases: Mapping[str, Case], size: int = 1) -> dict[str, Recorded]:
    """Train the cases in one plain Keras process, as the equivalent of ``size`` tasks. Each is trained only once per
    run of all tests.
    """

    def train(names: list[str]) -> dict[str, Recorded]:
        trained: dict[str, Recorded] = run_gang(1, plain({name: cases[name] for name in names}, size))[0]
        return trained

    return each(f"trained as by {size}", cases, train)


def plain(cases: Mapping[str, Case], size: int = 1) -> Callable[[FakeContext], dict[str, Recorded]]:
    """Return a program that trains every case in one Keras process without jupyter_dtf, as the equivalent of ``size``
    tasks.
    """

    def program(ctx: FakeContext) -> dict[str, Recorded]:
        import keras

        results = {}
        for name, case in cases.items():
            keras.utils.set_random_seed(7)
            model = case.plain_model(size) if case.plain_model else case.model()
            if not model.built:
                model(case.fit["x"][:1])
            recorder = _recorder()
            callbacks = case.plain_callbacks(size) if case.plain_callbacks else case.callbacks()
            arguments = {**case.fit, **case.plain_fit, "shuffle": False, "verbose": 0}
            history = model.fit(**arguments, callbacks=[*callbacks, recorder]).history
            results[name] = Recorded(recorder.steps, model.get_weights(), history)
        return results

    return program


def distributed(
    cases: Mapping[str, Case], transport: str = "auto", strategy: Any = None
) -> Callable[[FakeContext], dict[str, Any]]:
    """Return a program that trains every case with ``fit``. The first task also acts as the client. ``strategy`` None:
    all-reduce with the options of the case.
    """

    def program(ctx: FakeContext) -> dict[str, Any]:
        import jupyter_dtf.client.fit as client
        from jupyter_dtf.schema.strategy import AllReduce

        results: dict[str, Any] = {}
        for index, (name, case) in enumerate(cases.items()):
            recorder = _recorder()
            job: Any = None

            def prepared(index: int = index, case: Case = case, recorder: Any = recorder) -> bytes:
                nonlocal job
                source: Any = partial(_seeded, case)
                if transport != "ring" and not case.by_function:
                    # TensorFlow must not have run anything before collectives.
                    source = source()
                    if not source.built and ctx.rank % 2 == 0:
                        source(case.fit["x"][:1])
                random.seed(index)
                job = client.prepare(
                    source,
                    **{**case.fit, **case.fit_over_tasks, "shuffle": False, "callbacks": [*case.callbacks(), recorder]},
                    strategy=strategy or AllReduce(transport=transport, **case.strategy),
                )
                return _pickled(job.program)

            here = dataclasses.replace(ctx, shared_dir=ctx.shared_dir / str(index), points=[], notes=[], epochs=[])
            here.shared_dir.mkdir(exist_ok=True)
            try:
                program, arguments, _ = pickle.loads(
                    prepared() if case.built_here_and_there else ctx.by_one_client(prepared)
                )
                result = program(*arguments, here)
            except Exception as error:
                raise RuntimeError(f"in the case {name!r}: {error}") from error
            if result is None:
                results[name] = here
                continue
            job.finish(pickle.loads(_pickled(result)))
            rate = float(np.asarray(job.model.optimizer.learning_rate))
            history = job.model.history.history
            results[name] = Recorded(recorder.steps, job.model.get_weights(), history, ctx=here, rate=rate)
        return results

    return program


def fit(ctx: FakeContext, name: str, model: Any, x: Any, y: Any = None, **arguments: Any) -> tuple[FakeContext, Any]:
    """Do what the client and then this task does, in a separate directory. Return the task's context and its result,
    which is None except on the chief.
    """
    from jupyter_dtf.client.fit import prepare

    random.seed(5)  # one client draws the job's seed for all tasks
    here = dataclasses.replace(ctx, shared_dir=ctx.shared_dir / name, points=[], notes=[], epochs=[], progressed=[])
    here.shared_dir.mkdir(exist_ok=True)
    job = prepare(model, x, y, **arguments)
    function, positional, _ = job.program
    return here, function(*positional, here)


def _seeded(case: Case) -> Any:
    import keras

    keras.utils.set_random_seed(7)
    return case.model()


def _pickled(value: Any) -> bytes:
    import cloudpickle

    return bytes(cloudpickle.dumps(value))


def _distance(a: Any, b: Any) -> float:
    return float(np.max(np.abs(a - b), initial=0.0) / max(np.max(np.abs(b), initial=0.0), 1e-3))


def compare(case: Case, expected: Recorded, received: Recorded) -> None:
    """Raise an AssertionError unless weights and history are the same within the case's tolerance."""
    steps = received.steps if case.updates is None else [received.steps[i] for i in case.updates]
    assert len(steps) == len(expected.steps)
    for step, (ours, theirs) in enumerate(zip(steps, expected.steps, strict=True)):
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
