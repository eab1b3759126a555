"""Runs trials on a gang of tasks, one after the other in the same processes, and in one process of plain Keras.

If a gang has had an error, has refused a trial after its start, or has not responded for a long time, it is ended, and
another gang continues with the next trial. The outcome of one cell therefore never affects another.
"""

from __future__ import annotations

import os
import pickle
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jupyter_dtf.errors import InvalidInput

from ..backend.task.gang import FakeContext, Gang, divide_cpu, optimize_graphs
from ..patience import LIMIT_S
from .rows import Outcome, Trial, slug

QUIET_S = LIMIT_S
"""The time limit of a trial, in seconds. Most trials take less than a second."""

STRATEGIES = ("allreduce", "ps", "mirrored", "pipeline")
TASKS_COUNTED = (2, 3)
SERVERS = {"ps": {2: 1, 3: 2}}
"""The number of ps tasks, by strategy and number of workers."""


def alone(trials: Sequence[Trial]) -> list[dict[str, Outcome]]:
    """Return the outcomes of trials in one process."""
    return _run(trials, 1, 0, _plain)


def together(trials: Sequence[Trial], strategy: str, tasks: int) -> list[dict[str, Outcome]]:
    """Return the outcomes of trials under a strategy with a number of tasks."""
    servers = SERVERS.get(strategy, {}).get(tasks, 0)
    fewest = tasks == min(TASKS_COUNTED)
    replicas = tasks if strategy == "mirrored" else 0
    if replicas:
        tasks = 1

    def train(trial: Trial, ctx: FakeContext) -> Any:
        optimize_graphs(fewest and trial.kind == "models")
        if replicas:
            divide_cpu(replicas)
        return _distributed(trial, ctx, strategy, tasks, as_usual=fewest)

    found = _run(trials, tasks, servers, train)
    for number, (trial, outcomes) in enumerate(zip(trials, found, strict=True)):
        if len(trial.rows) > 1 and any(outcome.error or outcome.refusal for outcome in outcomes.values()):
            each = [replace(trial, rows=(row,)) for row in trial.rows]  # to find the row that fails
            found[number] = {row: outcome for one in _run(each, tasks, servers, train) for row, outcome in one.items()}
    return found


def _run(
    trials: Sequence[Trial], tasks: int, servers: int, train: Callable[[Trial, Any], Any]
) -> list[dict[str, Outcome]]:
    found: list[dict[str, Outcome]] = []
    while len(found) < len(trials):
        found += _gang(trials[len(found) :], tasks, servers, train)
    return found


def _gang(
    trials: Sequence[Trial], tasks: int, servers: int, train: Callable[[Trial, Any], Any]
) -> list[dict[str, Outcome]]:
    """Return the outcomes of the first trials, up to and including one that fails."""
    found: list[dict[str, Outcome]] = []
    with tempfile.TemporaryDirectory(prefix="jupyter_dtf-test-") as directory, _ear(directory) as ear:

        def program(ctx: FakeContext) -> None:
            for number, trial in enumerate(trials):
                with _mouth(directory) as mouth:
                    outcome = _outcome(trial, replace_directory(ctx, number), train)
                    if outcome is not None:
                        _leave(Path(directory) / str(number), outcome)
                        mouth.send(str(number).encode())

        with Gang(tasks + servers, program, servers=servers):
            while len(found) < len(trials):
                try:
                    number = int(ear.recv(16))
                except TimeoutError:
                    return [*found, _all(trials[len(found)], Outcome(error=f"nothing for {QUIET_S:.0f} s"))]
                outcomes = pickle.loads((Path(directory) / str(number)).read_bytes())
                found.append(outcomes)
                if any(outcome.error or (outcome.refusal and not outcome.by_all) for outcome in outcomes.values()):
                    return found
    return found


def replace_directory(ctx: FakeContext, number: int) -> FakeContext:
    """Return a context with a separate directory for one of many runs in this process."""
    shared = ctx.shared_dir / f"trial-{number}"
    shared.mkdir(exist_ok=True)
    return replace(ctx, shared_dir=shared, run_dir=shared, points=[], notes=[], epochs=[], progressed=[])


class _RefusedAtOnce(InvalidInput):
    """Raised by the client, that is, the first task. All tasks receive it, and continue with the next trial."""


def _outcome(trial: Trial, ctx: FakeContext, train: Callable[[Trial, Any], Any]) -> dict[str, Outcome] | None:
    """Return the outcomes of a trial's rows, or None if another task reports them."""
    import keras

    try:
        model = train(trial, ctx)
        if model is None:
            return None
        warnings = tuple(f"{title}. {text}" for level, title, text in ctx.notes if level != "info")
        return {row: replace(_of_row(trial, model, row), warnings=warnings) for row in trial.rows}
    except InvalidInput as error:
        by_all = isinstance(error, _RefusedAtOnce)
        # Any task that refuses on its own ends the run: other tasks may be waiting for it, or it for them.
        return None if by_all and not ctx.is_chief else _all(trial, Outcome(refusal=str(error), by_all=by_all))
    except Exception as error:
        if "was lost" in str(error) and not ctx.is_chief:
            return None  # the lost task reports what went wrong
        return _all(trial, Outcome(error=f"{type(error).__name__} on {ctx.task}: {error}"[:2000]))
    finally:
        keras.backend.clear_session(free_memory=False)  # collecting garbage each time takes a tenth of the whole time


def _all(trial: Trial, outcome: Outcome) -> dict[str, Outcome]:
    return dict.fromkeys(trial.rows, outcome)


def _of_row(trial: Trial, model: Any, row: str) -> Outcome:
    history = {name: [np.asarray(v).tolist() for v in values] for name, values in model.history.history.items()}
    if trial.is_whole:
        weights = {f"{number} {v.path}": v.numpy() for number, v in enumerate(model.variables) if "seed" not in v.path}
        return Outcome(weights, history)
    name = slug(row)
    if trial.kind == "metrics":
        mine = {key: values for key, values in history.items() if key.removeprefix("val_").partition("_")[2] == name}
        return Outcome({}, mine)
    weights = {
        f"{layer.name} {number}": variable.numpy()
        for layer in model.layers
        if layer.name.partition("__")[0] == name
        for number, variable in enumerate(layer.variables)
        if "seed" not in variable.path
    }
    return Outcome(weights, {})  # Keras's history of an output's loss ignores the sizes of batches


def _plain(trial: Trial, ctx: FakeContext) -> Any:
    optimize_graphs(False)
    model = trial.model(trial.rows)
    callbacks = [callback for row in trial.rows for callback in trial.callbacks(str(ctx.run_dir))]
    model.fit(**trial.fit(trial.rows), verbose=0, callbacks=callbacks)
    return model


def _distributed(trial: Trial, ctx: FakeContext, strategy: str, tasks: int, *, as_usual: bool) -> Any:
    """Train a trial with ``fit``. Return the model, or None if another task has it. ``as_usual``: with the check and
    the checkpoints that ``fit`` makes by default.
    """
    import random

    import cloudpickle

    import jupyter_dtf.client.fit as client

    job: Any = None

    def prepared() -> bytes:
        nonlocal job
        model = trial.model(trial.rows)
        random.seed(7)
        try:
            job = client.prepare(
                model,
                **trial.fit(trial.rows),
                strategy=_strategy(strategy, model, tasks),
                callbacks=trial.callbacks(str(ctx.run_dir)),
                check=as_usual,
                checkpoint=None if as_usual else False,
            )
        except InvalidInput as error:
            raise _RefusedAtOnce(str(error)) from error
        return bytes(cloudpickle.dumps(job.program))

    program, arguments, _ = pickle.loads(ctx.by_one_client(prepared))
    result = program(*arguments, ctx)
    if result is None:
        return None
    job.finish(pickle.loads(cloudpickle.dumps(result)))
    return job.model


def _strategy(name: str, model: Any, tasks: int) -> Any:
    from jupyter_dtf.schema.strategy import AllReduce, InGraph, ParameterServer, Pipeline

    from ..backend.task.fit.pipeline.placed import halves

    match name:
        case "allreduce":
            return AllReduce()
        case "ps":
            return ParameterServer(sync=True, split_bytes=1 if tasks > 2 else 16 << 20)
        case "mirrored":
            return InGraph()
        case "pipeline":
            return Pipeline(halves(model, tasks), microbatches=3)
    raise ValueError(f"A strategy must be one of {STRATEGIES}, got {name!r}")


@contextmanager
def _ear(directory: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ear:
        ear.bind(os.path.join(directory, "ear"))
        ear.settimeout(QUIET_S)
        yield ear


@contextmanager
def _mouth(directory: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as mouth:
        mouth.connect(os.path.join(directory, "ear"))
        yield mouth


def _leave(path: Path, outcome: Any) -> None:
    """Write an outcome to a file atomically. The first task that announces its outcome determines the result."""
    aside = path.with_name(f"{path.name}-{os.getpid()}")
    aside.write_bytes(pickle.dumps(outcome))
    aside.rename(path)
