"""Tests of programs that have made TensorFlow's operations deterministic."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_dtf.client.keras_settings import keras_settings
from jupyter_dtf.schema.strategy import InGraph, ParameterServer

from ..gang import FakeContext, divide_cpu, run_gang
from .cases import CASES
from .comparison import alone, compare, distributed
from .pipeline.test_cases import case as pipelined

NAME = "momentum and clipping"


@pytest.mark.parametrize(
    ("strategy", "tasks", "servers"),
    [(None, 2, 0), (ParameterServer(sync=True), 2, 1), (InGraph(), 1, 0)],
    ids=["all-reduce", "parameter server", "in-graph"],
)
def test_it_trains_as_in_one_process(strategy: Any, tasks: int, servers: int) -> None:
    def program(ctx: FakeContext) -> Any:
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
        if tasks == 1:
            divide_cpu(2)
        return distributed({NAME: CASES[NAME]}, strategy=strategy)(ctx)

    expected = alone({NAME: CASES[NAME]})[NAME]
    results = run_gang(tasks + servers, program, servers=servers)
    compare(CASES[NAME], expected, results[0][NAME])


def test_a_pipeline_does_too() -> None:
    def program(ctx: FakeContext) -> Any:
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()
        return pipelined(ctx, NAME)

    expected = alone({NAME: CASES[NAME]})[NAME]
    compare(CASES[NAME], expected, run_gang(2, program)[0])


def test_tasks_are_as_deterministic_as_the_client() -> None:
    def program(ctx: FakeContext) -> list[bool]:

        from jupyter_dtf.backend.task import determinism
        from jupyter_dtf.backend.task.fit.models import configure_keras

        configure_keras(keras_settings())
        before = determinism.is_enabled()
        configure_keras({**keras_settings(), "op_determinism": True})
        return [before, determinism.is_enabled(), keras_settings()["op_determinism"]]

    assert run_gang(1, program) == [[False, True, True]]
